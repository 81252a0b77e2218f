"""The guard itself: rehearse a call, hear the rules, then perhaps a judge, and keep a log."""

import os
from datetime import UTC, datetime
from pathlib import Path

from envace.errors import EnvaceError
from envace.guard.judge import GuardJudge
from envace.guard.rehearsers import Pending, Rehearser
from envace.guard.rules import Rehearsed, RuleSettings, objection
from envace.guard.verdict import PASSED, UNREHEARSED, Decision, Verdict
from envace.trajectory import ToolCall, compact


class Guard:
    """Gives verdicts on calls; it has no means to execute one."""

    def __init__(
        self,
        rehearser: Rehearser,
        rules: RuleSettings | None = None,
        times: int = 4,
        judge: GuardJudge | None = None,
        judge_decision: Decision = "ask",
        log: Path | None = None,
    ) -> None:
        """Set up a guard.

        Args:
            rehearser: Who predicts responses.
            rules: What the rules go by.
            times: Predictions of a call.
            judge: Asked about calls that no rule objects to.
            judge_decision: What follows from its objection.
            log: JSON-lines file that gets a line for every verdict.

        Raises:
            EnvaceError: The log cannot be written.
        """
        self.rehearser = rehearser
        self.rules = rules or RuleSettings()
        self.times = times
        self.judge = judge
        self.judge_decision = judge_decision
        self.log = log
        if log is not None:
            try:
                log.parent.mkdir(parents=True, exist_ok=True)
                append(log, b"")
            except OSError as error:
                raise EnvaceError(f"{log}: cannot write: {error}", "choose another log") from error

    def examine(self, pending: Pending) -> Verdict:
        """Rehearse a call and decide; a call that cannot be rehearsed is asked about."""
        try:
            rehearsal = self.rehearser.rehearse(pending, self.times)
        except EnvaceError as error:
            return Verdict(decision="ask", rule=UNREHEARSED, reason=error.message)
        case = Rehearsed(pending.call.name, rehearsal.predictions)
        decision, rule, reason = self._decide(pending, case)
        return Verdict(
            decision=decision,
            rule=rule,
            reason=reason,
            predictions=rehearsal.predictions,
            tokens=rehearsal.tokens,
        )

    def _decide(self, pending: Pending, case: Rehearsed) -> tuple[Decision, str, str]:
        if not case.values:
            return "ask", UNREHEARSED, f"none of {len(case.predictions)} rehearsals is legible"
        if found := objection(case, self.rules):
            return found
        if self.judge is not None:
            try:
                reason = self.judge.objection(pending, case.predictions)
            except EnvaceError as error:
                return "ask", "judge", f"no judgment: {error.message}"
            if reason is not None:
                return self.judge_decision, "judge", reason
        return "allow", PASSED, f"no objection to {case.share(len(case.values))}"

    def record(self, call: ToolCall, verdict: Verdict, answer: str = "") -> None:
        """Log a verdict as one line; lines of several guards never mix, as each is one write.

        Args:
            call: The call.
            verdict: The verdict on it.
            answer: What became of a question: `accept`, `decline`, `cancel`, `unasked` where the
                client takes none, `posed` where a chat reply puts it.

        Raises:
            OSError: The log cannot be written.
        """
        if self.log is None:
            return
        entry = {
            "time": datetime.now(UTC).isoformat(timespec="milliseconds"),
            **verdict.entry(call),
            "answer": answer,
        }
        append(self.log, (compact(entry) + "\n").encode(errors="backslashreplace"))


def append(path: Path, line: bytes) -> None:
    """Add to the end of a file in one write; only its owner may read a new one.

    Raises:
        OSError: It cannot be written.
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(descriptor, line)
    finally:
        os.close(descriptor)
