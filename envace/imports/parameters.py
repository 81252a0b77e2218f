"""JSON schemas of tool arguments as they are published, in one form that validates.

The form: a JSON schema of draft 2020-12 without references, whose root is an object, in which every
object lists what it requires and every argument, at any depth, has a `description` and says in `type`
what it may be, as one name or, where there are alternatives, as a list of names. A repair never makes
a schema narrower, but for a type that had to be inferred.
"""

from typing import Any, Literal
from urllib.parse import unquote

from envace.imports.evidence import evidence, merged
from envace.imports.type_names import ANY, JSON_TYPES, schema_of
from envace.trajectory import compact

MAX_PARTS = 10_000
"""Parts of one schema with its references written out; more is refused, since references can multiply."""
MAX_WALKS = 10
"""Rounds of repair."""

Schema = dict[str, Any]
Place = Literal["argument", "element", "part"]
"""Where a schema stands: an argument must have a type, an element may get one, a part keeps its own."""

_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
_DIALECT = ("$schema", "$id", "$anchor", "$dynamicAnchor", "$recursiveAnchor", "$vocabulary")
_MAPS = ("patternProperties", "dependentSchemas")
_SINGLE = (
    "additionalProperties", "unevaluatedProperties", "unevaluatedItems", "propertyNames", "contains",
    "not", "if", "then", "else",
)  # fmt: skip
_LISTS = ("anyOf", "oneOf", "allOf", "prefixItems")
_ROOT = ("properties", "$ref", "$defs", "definitions", "patternProperties", "additionalProperties", "not")
_ANNOTATIONS = {"title", "description", "default", "examples", "deprecated", "$comment"}
_KIND = {"anyOf": "any_of", "oneOf": "one_of", "allOf": "all_of"}


def normalize_parameters(schema: Any) -> tuple[Schema, list[str]]:
    """The schema of an arguments object in the form of this module, and the kinds of repairs made.

    Args:
        schema: Decoded JSON: a schema, a map from argument to schema, a list of named arguments, or nothing.

    Raises:
        ValueError: The schema has more than `MAX_PARTS` parts once its references are written out, or
            cannot be mended.
    """
    repairs: list[str] = []
    root = _root(schema, repairs)
    for _ in range(MAX_WALKS):  # one repair may bare another; most schemas need two walks
        walk = _Walk(root)
        root = walk.root()
        made = walk.repairs or _remove_invalid(root)
        if not made:
            return root, repairs
        repairs += made
    raise ValueError(f"a schema that {MAX_WALKS} rounds of repair do not mend (write it anew)")


def _root(schema: Any, repairs: list[str]) -> Schema:
    """The root as a schema, whatever it was."""
    if schema is None or schema == {}:
        repairs.append("parameters_missing")
        return {"type": "object", "properties": {}, "required": []}
    if isinstance(schema, list) and all(isinstance(item, dict) and "name" in item for item in schema):
        repairs.append("parameters_wrapped")
        return {"type": "object", "properties": {str(item.pop("name")): item for item in map(dict, schema)}}
    if not isinstance(schema, dict):
        repairs.append("not_a_schema")
        return {"type": "object", "$comment": f"not a schema: {compact(schema)}"}
    arguments = all(
        isinstance(value, dict) or (isinstance(value, str) and schema_of(value) and name != "type")
        for name, value in schema.items()
    )
    if arguments and not schema.keys() & set(_ROOT):
        repairs.append("parameters_wrapped")
        return {"type": "object", "properties": schema}
    return schema


class _Walk:
    """One pass over a schema: what it repaired is in `repairs`."""

    def __init__(self, document: Schema) -> None:
        self.document = document
        self.repairs: list[str] = []
        self._parts = 0

    def root(self) -> Schema:
        node = self.node(self.document, "part", ("#",))
        kind = node.get("type")
        if kind is None:
            self.repairs.append("type_missing")
        elif isinstance(kind, list) and "object" in kind:
            self.repairs.append("type_list")
        elif kind != "object":
            self.repairs.append("not_an_object")
            node = {"$comment": f"not the schema of an object: {compact(node)}"}
        node["type"] = "object"
        if "properties" not in node:
            self.repairs.append("properties_missing")
            node["properties"] = {}
        self._required(node)
        return {key: node[key] for key in ("type", "properties", "required")} | node

    def node(self, schema: Any, place: Place, active: tuple[str, ...]) -> Any:
        """A schema at any place, repaired; `active` are the references being written out."""
        self._parts += 1
        if self._parts > MAX_PARTS:
            raise ValueError(f"a schema of more than {MAX_PARTS} parts (write it without its references)")
        if schema is False or (schema is True and place != "argument"):
            return schema
        node, active = self._resolved(self._as_schema(schema), active)
        self._type(node)
        self._dialect(node)
        self._children(node, active)
        self._alternatives(node)
        if "type" not in node and place != "part":
            self._infer(node, place)
        if "object" in node.get("type", ()) and "properties" in node:
            self._required(node)
        return node

    def _drop(self, node: Schema, key: str, kind: str) -> Any:
        self.repairs.append(kind)
        return node.pop(key)

    def _as_schema(self, schema: Any) -> Schema:
        if isinstance(schema, dict):
            node = dict(schema)
            for key in [k for k, value in node.items() if value is None and k != "default"]:
                if key != "const" or node.get("type"):  # tables fill what a row lacks with null
                    self._drop(node, key, "null_keyword")
            return node
        self.repairs.append("not_a_schema")
        if isinstance(schema, str):
            return schema_of(schema) or {"description": schema}
        return {}

    def _resolved(self, node: Schema, active: tuple[str, ...]) -> tuple[Schema, tuple[str, ...]]:
        """The node with what it refers to in place of the reference; a circle is cut."""
        while key := next((key for key in _REFERENCES if key in node), None):
            reference = node.pop(key)
            target = self._target(reference)
            if reference in active or not isinstance(target, dict):
                self.repairs.append("ref_recursive" if reference in active else "ref_unresolved")
                node["$comment"] = f"cut here: {key} {reference}"
                if isinstance(target, dict) and isinstance(target.get("type"), str):
                    node.setdefault("type", target["type"])
            else:
                self.repairs.append("ref")
                active = (*active, reference)
                node = {**self._as_schema(target), **node}
        return node, active

    def _target(self, reference: Any) -> Any:
        if not isinstance(reference, str) or not (reference == "#" or reference.startswith("#/")):
            return None
        found: Any = self.document
        for step in unquote(reference).split("/")[1:]:
            step = step.replace("~1", "/").replace("~0", "~")
            if isinstance(found, list) and step.isdecimal() and int(step) < len(found):
                found = found[int(step)]
            else:
                found = found.get(step) if isinstance(found, dict) else None
        return found

    def _type(self, node: Schema) -> None:
        """Names of JSON schema for names of other languages."""
        kind = node.get("type")
        if "type" not in node or (isinstance(kind, str) and kind in JSON_TYPES):
            return
        if isinstance(kind, list):
            schemas = [schema_of(name) if isinstance(name, str) else None for name in kind]
            known = [schema["type"] for schema in schemas if schema and isinstance(schema.get("type"), str)]
            names = list(dict.fromkeys(known)) if len(known) == len(kind) else []
            if len(names) == len(kind) > 1 and names == kind:
                return
            del node["type"]
            if names:
                node["type"] = names if len(names) > 1 else names[0]
            self.repairs.append("type_list")
            return
        del node["type"]
        self.repairs.append("type_name")
        found = schema_of(kind) if isinstance(kind, str) else None
        if found:
            node.update({key: value for key, value in found.items() if key not in node})
        else:
            said = kind if isinstance(kind, str) else compact(kind)
            node["description"] = f"{node.get('description') or ''} (type: {said})".strip()

    def _dialect(self, node: Schema) -> None:
        """Older drafts' ways in the newest one's."""
        for key in _DIALECT:
            if key in node:
                self._drop(node, key, "dialect")
        for key in ("$defs", "definitions"):
            if key in node:
                self._drop(node, key, "definitions")
        for bound in ("Minimum", "Maximum"):
            key, plain = f"exclusive{bound}", bound.lower()
            if isinstance(node.get(key), bool) and self._drop(node, key, "dialect") and plain in node:
                node[key] = node.pop(plain)
        if isinstance(node.get("items"), list):
            node["prefixItems"] = self._drop(node, "items", "dialect")
            if "additionalItems" in node:
                node["items"] = node.pop("additionalItems")
        if isinstance(node.get("required"), bool):  # an argument's own flag is read with its object
            self._drop(node, "required", "required_flag")

    def _children(self, node: Schema, active: tuple[str, ...]) -> None:
        if "properties" in node:
            self._properties(node, active)
        for key in _MAPS:
            if isinstance(node.get(key), dict):
                node[key] = {name: self.node(value, "part", active) for name, value in node[key].items()}
            elif key in node:
                self._drop(node, key, "keyword")
        if "items" in node:
            node["items"] = self.node(node["items"], "element", active)
        for key in _SINGLE:
            if key in node:
                node[key] = self.node(node[key], "part", active)
        for key in _LISTS:
            if isinstance(node.get(key), dict):
                node[key] = [self._drop(node, key, "keyword")]
            if key in node and not (isinstance(node[key], list) and node[key]):
                self._drop(node, key, "keyword")
            elif key in node:
                node[key] = [self.node(value, "part", active) for value in node[key]]

    def _properties(self, node: Schema, active: tuple[str, ...]) -> None:
        found = node["properties"]
        if isinstance(found, list) and all(isinstance(item, dict) and "name" in item for item in found):
            found = {str(item.pop("name")): item for item in map(dict, found)}
            self.repairs.append("parameters_wrapped")
        elif not isinstance(found, dict):
            self._drop(node, "properties", "keyword")
            return
        required = node.get("required")
        listed = required if isinstance(required, list) else [required]
        listed = [name for name in listed if isinstance(name, str)]
        node["properties"] = {}
        for name, child in found.items():
            if child is None and name not in listed:
                self.repairs.append("null_keyword")
                continue
            if isinstance(child, dict) and isinstance(child.get("required"), bool):
                child = dict(child)
                if self._drop(child, "required", "required_flag") and name not in listed:
                    listed.append(name)
                    node["required"] = list(listed)
            child = self.node(child, "argument", active)
            if isinstance(child, dict) and not isinstance(child.get("description"), str):
                self.repairs.append("description")
                said = child.get("description")
                child["description"] = "" if said is None else compact(said)
            node["properties"][name] = child

    def _alternatives(self, node: Schema) -> None:
        """Alternatives that differ in nothing but their type, or in being null, as a list of types."""
        for key in ("allOf", "anyOf", "oneOf"):
            branches = node.get(key)
            if not branches or not all(isinstance(branch, dict) for branch in branches):
                continue
            one = branches[0] if len(branches) == 1 else None
            if one is None and key != "allOf" and "type" not in node:
                one = merged(branches, exclusive=key == "oneOf")
            if one is not None and not (one.keys() & node.keys()) - _ANNOTATIONS:
                self._drop(node, key, _KIND[key])
                node.update({name: value for name, value in one.items() if name not in node})

    def _infer(self, node: Schema, place: Place) -> None:
        types = evidence(node) or (list(ANY) if place == "argument" else [])
        if types:
            self.repairs.append("type_missing")
            node["type"] = types if len(types) > 1 else types[0]

    def _required(self, node: Schema) -> None:
        required = node.get("required")
        if required is None:
            self.repairs.append("required_missing")
            node["required"] = []
            return
        names = [required] if isinstance(required, str) else required if isinstance(required, list) else []
        names = list(dict.fromkeys(name for name in names if isinstance(name, str)))
        if names != required:
            self.repairs.append("required_invalid")
            node["required"] = names


def _remove_invalid(schema: Schema) -> list[str]:
    """Remove keywords that JSON schema refuses, e.g. `"minimum": "0"` or a pattern of another language."""
    from jsonschema import Draft202012Validator

    judge = Draft202012Validator(
        Draft202012Validator.META_SCHEMA, format_checker=Draft202012Validator.FORMAT_CHECKER
    )
    removed = []
    while error := next(judge.iter_errors(schema), None):
        *path, last = error.absolute_path
        parent: Any = schema
        for step in path:
            parent = parent[step]
        del parent[last]
        removed.append("keyword")
    return removed
