"""Rehearsed outputs as the gate gets them, made by the dozen."""

from envace.quality import RehearsedOutput


def rows(
    world: str, tool: str, right: int, wrong: int, *, error: bool = False, **changes: object
) -> list[RehearsedOutput]:
    """Rows that are perfect but for the `wrong` ones, which disagree."""
    base = RehearsedOutput(
        policy="warmup",
        world=world,
        tool=tool,
        template="t",
        task_id="t-1",
        call="{}",
        predicted='{"ok":true}',
        actual='{"ok":true}',
        parses=True,
        terminated=True,
        agrees=True,
        valid=None if error else True,
        is_error=error,
    ).model_copy(update=changes)
    return [base] * right + [base.model_copy(update={"agrees": False})] * wrong
