"""Runs inside the BFCL environment: generate (or replay) answers, guard them, score them, list items.

Usage: `python bfcl_run.py JOB OUTCOME`, both JSON files; `BFCL_PROJECT_ROOT` must be a fresh folder, for
the harness keeps results there and object state in its module's globals: one process, one run.
"""

import argparse
import json
import os
import shutil
import sys
from pathlib import Path
from typing import Any

import allowlist
import bfcl_gold
import bfcl_source
import journal
import lifeline
from bfcl_handler import MODEL, OWN_FAILURES, EndpointFailed, function_names
from confine import confine

# After the handler, which puts its registry in place of the shipped one.
from bfcl_eval import _llm_response_generation, utils  # isort: skip
from bfcl_eval.constants import category_mapping, eval_config  # isort: skip
from bfcl_eval.eval_checker import eval_runner  # isort: skip


def entries_of(category: str) -> dict[str, dict[str, Any]]:
    """Entries of a category by id, functions included."""
    rows = utils.load_dataset_entry(category, include_prereq=False, include_language_specific_hint=False)
    return {row["id"]: row for row in rows}


def gold_of(category: str) -> dict[str, Any]:
    """Ground truth by entry id; empty for (ir)relevance. The official order pairs entries and answers."""
    if utils.is_relevance_or_irrelevance(category):
        return {}
    rows = utils.load_ground_truth_entry(category)
    return {i: row["ground_truth"] for i, row in zip(entries_of(category), rows, strict=True)}


JUDGED = "judged"
"""Folder with the answers that the checker gets to see."""


def result_file(category: str, kept: Path = eval_config.RESULT_PATH) -> Path:
    """Where the harness keeps a category's answers."""
    folder = kept / MODEL / utils.get_directory_structure_by_category(category)
    return Path(folder / utils.get_file_name_by_category(category, is_result_file=True))


def read_lines(path: Path) -> list[dict[str, Any]]:
    """Rows of a JSON-lines file; none when it does not exist."""
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()] if path.exists() else []


def write_lines(path: Path, rows: list[dict[str, Any]]) -> None:
    """Write rows as JSON lines."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")


def before(category: str, ids: list[str]) -> list[str]:
    """Conversations in which the model fills the memory that entries of a memory category ask about."""
    if not utils.is_memory(category):
        return []
    chosen = set(ids)
    rows = utils.load_dataset_entry(category)
    return sorted({i for row in rows if row["id"] in chosen for i in row["depends_on"]})


def failed(row: dict[str, Any]) -> bool:
    """True when the harness stored an error as an answer, other than the model's own failures."""
    return "traceback" in row and not row["result"].endswith(OWN_FAILURES)


def produce(job: dict[str, Any]) -> None:
    """Fill the harness's result files: by the model, by a replay, or with `job["answers"]`."""
    if job["mode"] == "run":
        for path in eval_config.RESULT_PATH.rglob("*_result.json"):
            # Of a killed run: half a line, and errors, which the harness would not try again.
            journal.mend(path)
            write_lines(path, [row for row in read_lines(path) if not failed(row)])
        ids = {category: chosen + before(category, chosen) for category, chosen in job["ids"].items()}
        eval_config.TEST_IDS_TO_GENERATE_PATH.write_text(json.dumps(ids), "utf-8")
        args = argparse.Namespace(
            model=[MODEL],
            test_category=list(job["ids"]),
            temperature=0.001,
            include_input_log=False,
            exclude_state_log=True,
            num_threads=int(os.environ["ENVACE_THREADS"]),
            result_dir=None,
            run_ids=True,
            allow_overwrite=False,
        )
        _llm_response_generation.main(args)
        return
    for category, ids in job["ids"].items():
        entries, gold = entries_of(category), gold_of(category)
        given = job.get("answers", {})
        rows = []
        for i in ids:
            if i in given:
                answer = given[i]
            else:
                answer = bfcl_gold.answer(job["mode"], entries[i], gold.get(i), category)
            if i not in given and category in bfcl_source.LANGUAGES:
                language = bfcl_source.LANGUAGES[category]
                answer = bfcl_source.rewritten(answer, entries[i]["function"], language)
            counts = {"input_token_count": 0, "output_token_count": 0, "latency": 0}
            rows.append({"id": i, "result": answer} | counts)
        write_lines(result_file(category), rows)


def total(count: Any) -> int:
    """Sum of the harness's token counts, which are nested by turn and step."""
    return sum(map(total, count)) if isinstance(count, list) else int(count or 0)


def guard(category: str) -> list[dict[str, Any]]:
    """Outcomes of a category before scoring; the checker gets to see what is not refused.

    Raises:
        EndpointFailed: when the harness stored an error as an answer, other than the model's own failures.
    """
    multi, entries = utils.contain_multi_turn_interaction(category), entries_of(category)
    outcomes, kept = [], []
    for row in read_lines(result_file(category)) + read_lines(result_file(f"{category}_prereq")):
        if failed(row):
            raise EndpointFailed(f"{row['id']}: {row['result']}")
        if row["id"] not in entries:
            continue  # the memory's writing is not scored
        reason: str | None = row["result"].rpartition(": ")[2] if "traceback" in row else None
        if "traceback" not in row:
            reason = allowlist.answer_refusal(row["result"], function_names(entries[row["id"]]), multi)
            reason = reason and f"refused: {reason}"
        if not reason:
            kept.append(row)
        outcomes.append(
            {
                "id": row["id"],
                "category": category,
                "success": 0,
                "error": reason or "",
                "act_tokens": total(row.get("output_token_count")),
                "rehearsal_tokens": row.get("rehearsal_tokens", 0),
                "steps": row.get("steps", 0),
                "answer": row["result"],
            }
        )
    if kept:
        write_lines(result_file(category, eval_config.PROJECT_ROOT / JUDGED), kept)
    return outcomes


def score(job: dict[str, Any]) -> list[dict[str, Any]]:
    """Outcomes of all entries by the official checker; what the guard refused stays wrong."""
    for former in (JUDGED, eval_config.SCORE_PATH.name):
        shutil.rmtree(eval_config.PROJECT_ROOT / former, ignore_errors=True)
    (eval_config.PROJECT_ROOT / JUDGED / MODEL).mkdir(parents=True)
    eval_config.SCORE_PATH.mkdir()
    outcomes = {category: guard(category) for category in job["ids"]}
    eval_runner.main([MODEL], list(job["ids"]), JUDGED, None, partial_eval=True)
    for category, rows in outcomes.items():
        folder = eval_config.SCORE_PATH / MODEL / utils.get_directory_structure_by_category(category)
        lines = read_lines(Path(folder / utils.get_file_name_by_category(category, is_score_file=True)))
        wrong = {line["id"]: line for line in lines[1:]}
        for row in rows:
            if row["id"] in wrong:
                line = wrong[row["id"]]
                row["error"] = line.get("error_type") or line["error"]["error_type"]
            elif not row["error"]:
                row["success"] = 1
            if job["mode"] == "gold" and row["id"] in bfcl_gold.UNANSWERABLE:
                row |= {"success": None, "error": bfcl_gold.UNANSWERABLE[row["id"]]}
        missing = set(job["ids"][category]) - {row["id"] for row in rows}
        if missing:
            raise EndpointFailed(f"{category}: no answer to {sorted(missing)[0]} and {len(missing) - 1} more")
    # Files are in the order of answering, which a kill may have changed.
    return [
        row for c, ids in job["ids"].items() for row in sorted(outcomes[c], key=lambda r: ids.index(r["id"]))
    ]


def items() -> list[dict[str, Any]]:
    """All entries of all scored categories, with question text, tools and gold calls."""
    rows = []
    for category in category_mapping.ALL_SCORING_CATEGORIES:
        gold = {} if utils.is_agentic(category) else gold_of(category)
        for i, entry in entries_of(category).items():
            functions = bfcl_gold.all_functions(entry)
            if utils.is_multi_turn(category):
                calls = [bfcl_gold.parse_call(text, functions) for turn in gold[i] for text in turn]
            else:
                calls = bfcl_gold.single_turn_calls(gold.get(i, []))
            text = [m["content"] for turn in entry["question"] for m in turn if m["role"] == "user"]
            schemas = bfcl_gold.parameter_names(functions)
            rows.append(
                {
                    "benchmark": "bfcl_v4",
                    "id": i,
                    "split": category,
                    "text": "\n".join(text),
                    "tools": list(schemas),
                    "schemas": schemas,
                    "gold_calls": bfcl_gold.canonical_calls(calls),
                }
            )
    return rows


def main() -> int:
    """Do the job; a failure of the endpoint is written as `{"fatal": reason}` and exits 3."""
    lifeline.tie()
    job = json.loads(Path(sys.argv[1]).read_text("utf-8"))
    outcome: dict[str, Any]
    confine(Path.cwd(), *([os.environ["OPENAI_BASE_URL"]] if job["mode"] == "run" else []))
    try:
        if job["mode"] == "items":
            outcome = {"items": items()}
        else:
            produce(job)
            outcome = {"tasks": score(job)}
    except EndpointFailed as error:
        outcome = {"fatal": str(error)}
    Path(sys.argv[2]).write_text(json.dumps(outcome), "utf-8")
    return 3 if "fatal" in outcome else 0


if __name__ == "__main__":
    sys.exit(main())
