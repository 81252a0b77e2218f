"""The anchor of observation: a fair sample of the warm-up data, without what is not true."""

from collections import defaultdict
from pathlib import Path

import pytest
import yaml

from envace.chat import CompactTemplate
from envace.compose import compose
from envace.params import Params
from envace.synthesis.worlds import Mixture, synthesize
from envace.trajectory import write_records
from stages.arms import ANCHORED, logged_streams, streams_of

MIXTURE = Mixture(
    demonstrations=600, glimpses=0, drills=120, memories=10, commits=10,
    wrong_call_rate=0.15, broken_rate=0.1, noted_rate=0.15, format_only=("courier",),
)  # fmt: skip


def test_anchor_misses_no_template_that_synthesis_took_in_turn(
    template: CompactTemplate, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    params = Params.model_validate(yaml.safe_load(compose(["profile=tiny"])))
    monkeypatch.chdir(tmp_path)
    made = list(synthesize(MIXTURE, seed=1))
    Path("data/split").mkdir(parents=True)
    write_records(Path("data/split/train.jsonl"), made)
    anchor = {tuple(stream.ids) for stream in logged_streams(params, template)}
    rows = defaultdict(list)
    for trajectory in made:
        (stream,) = streams_of(params, template, [trajectory])
        rows[trajectory.source, trajectory.world, trajectory.lineage.template].append(
            tuple(stream.ids) in anchor
        )
    demonstrated = {key: hits for key, hits in rows.items() if key[0] == "demonstration"}
    # Agenda's five templates come in turn: every fifth of them would always be the same one.
    assert len([key for key in demonstrated if key[1] == "agenda"]) == 5
    assert all(0.5 * ANCHORED < sum(hits) / len(hits) < 2 * ANCHORED for hits in demonstrated.values())
    assert not any(any(hits) for key, hits in rows.items() if key[:2] == ("drill", "courier"))
    assert any(any(hits) for key, hits in rows.items() if key[:2] == ("drill", "store"))
