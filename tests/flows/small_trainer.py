"""A DVC project with the shape of the real one whose policy is a number: lessons learned, less nonsense."""

import shutil
import subprocess
from pathlib import Path

from throwaway import dvc

from envace.leakage import EvalItem
from envace.trajectory import Message, Trajectory, write_records

DVC_YAML = """
stages:
  model:
    cmd: python model.py
    deps: [model.py]
    params: [model]
    outs: [models/base]
  synthesize:
    cmd: python synthesize.py
    deps: [synthesize.py]
    params: [synthesize]
    outs: [data/synthetic.jsonl]
  leakage:
    cmd: python leakage.py
    deps: [leakage.py, data/synthetic.jsonl]
    outs: [data/clean.jsonl]
  train:
    cmd: python train.py
    deps: [train.py, models/base, data/clean.jsonl]
    outs: [models/trained, quality/trained.json]
  evaluate:
    cmd: python evaluate.py
    deps: [evaluate.py, models/trained]
    outs: [evaluation/small.json]
    metrics: [metrics/small.json]
"""
PARAMS = """
synthesize: {sources: {}}
filter: {rules: {roles: {}, empty: {}}, max_loss: 0.5}
leakage: {against: [worlds, items.jsonl], policy: remove}
gate: {enforced: true}
model: {source: scratch}
"""
SCRIPTS = {
    "model.py": """
import yaml
from pathlib import Path
from envace.models.revision import fetch
base, model = Path("models/base"), yaml.safe_load(open("params.yaml"))["model"]
base.mkdir(parents=True, exist_ok=True)
if model["source"] == "revision":
    fetch(model["revision"], base)
else:
    (base / "skill.json").write_text("0")
""",
    "synthesize.py": """
import yaml
from pathlib import Path
from envace.synthesis.sources import mixed_in
from envace.trajectory import write_records
sources = yaml.safe_load(open("params.yaml"))["synthesize"]["sources"]
write_records("data/synthetic.jsonl", mixed_in(sources, 0, 1, Path("."), {}))
""",
    "leakage.py": """
import shutil, sys
if "held-out" in open("data/synthetic.jsonl").read():
    sys.exit("error: 1 held-out part is left in training")
shutil.copy("data/synthetic.jsonl", "data/clean.jsonl")
""",
    "train.py": """
import json, pathlib
rows = open("data/clean.jsonl").read()
for folder in ("models/trained", "quality"):
    pathlib.Path(folder).mkdir(parents=True, exist_ok=True)
skill = json.load(open("models/base/skill.json")) + rows.count('"lesson ') - rows.count('"nonsense ')
pathlib.Path("models/trained/skill.json").write_text(json.dumps(skill))
passed = "gibberish" not in rows
pathlib.Path("quality/trained.json").write_text(json.dumps({"passed": passed, "failures": ["parses 0.1"]}))
""",
    "evaluate.py": """
import json, pathlib
skill = json.loads(pathlib.Path("models/trained/skill.json").read_text())
tasks = [{"id": f"t{i}", "success": int(i < 50 + skill)} for i in range(200)]
for file, value in (("evaluation/small.json", {"tasks": tasks}), ("metrics/small.json", {"skill": skill})):
    pathlib.Path(file).parent.mkdir(exist_ok=True)
    pathlib.Path(file).write_text(json.dumps(value))
""",
}
BENCHMARKS = {"evaluate": "evaluation/small.json"}
LEAK = "which of the seven lighthouses on the northern coast was built before the great storm of 1703"


def make(root: Path) -> Path:
    """The project, committed; it never ran."""
    root.mkdir(exist_ok=True)
    subprocess.run(["git", "init", "--quiet"], cwd=root, check=True)
    dvc("init", "--quiet", cwd=root)
    dvc("config", "core.check_update", "false", cwd=root)
    (root / "dvc.yaml").write_text(DVC_YAML)
    (root / "params.yaml").write_text(PARAMS)
    (root / ".gitignore").write_text("/data\n/models\n/quality\n/evaluation\n/metrics\n/inbox\n/flows\n")
    for name, script in SCRIPTS.items():
        (root / name).write_text(script)
    write_records(root / "items.jsonl", [EvalItem(benchmark="bench", id="7", split="", text=LEAK)])
    subprocess.run(["git", "add", "-A"], cwd=root, check=True)
    identity = ["-c", "user.name=t", "-c", "user.email=t@localhost"]
    subprocess.run(["git", *identity, "commit", "--quiet", "-m", "project"], cwd=root, check=True)
    (root / "inbox").mkdir()
    return root


def drop(root: Path, name: str, text: str, count: int) -> Path:
    """A file of rows in the inbox, moved in whole."""
    rows = [
        Trajectory(
            id=f"{name}-{i}",
            source="log",
            messages=(
                Message(role="user", content=f"{text} {i}"),
                Message(role="assistant", content="very well", author="recorded"),
            ),
        )
        for i in range(count)
    ]
    hidden = root / "inbox" / f".{name}"
    write_records(hidden, rows)
    return Path(shutil.move(hidden, root / "inbox" / name))
