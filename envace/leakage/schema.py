"""Tools in common: names and parameter sets that training and evaluation share (the same domain)."""

from envace.leakage.material import Hit, Material

MIN_PARAMETERS = 3
"""Two tools of different names with fewer equal parameters than this are alike by chance."""


def find(material: Material) -> list[Hit]:
    """Items with a tool that training has too, by name or by its set of parameter names.

    The score is the share of the item's tools; the trajectory named is the first with such a tool.
    """
    by_name: dict[str, int] = {}
    by_parameters: dict[frozenset[str], int] = {}
    for number, trajectory in enumerate(material.train):
        for tool in trajectory.tools:
            by_name.setdefault(tool.name.casefold(), number)
            parameters = frozenset(tool.parameters.get("properties") or ())
            if len(parameters) >= MIN_PARAMETERS:
                by_parameters.setdefault(parameters, number)

    hits = []
    for index, item in enumerate(material.items):
        shared: dict[str, int] = {}
        for name in item.tools:
            parameters = frozenset(item.schemas.get(name, ()))
            if name.casefold() in by_name:
                shared[f"{name} (name)"] = by_name[name.casefold()]
            elif parameters in by_parameters:
                shared[f"{name} (parameters)"] = by_parameters[parameters]
        if shared:
            first = min(shared.values())
            hits.append(Hit(index, (first,), len(shared) / len(item.tools), detail=", ".join(shared)))
    return hits
