"""Parameters: composed, validated, and safe for DVC's cache key."""

from pathlib import Path

import pytest
import yaml

from envace.compose import compose, write_params
from envace.errors import EnvaceError
from envace.params.project import FORBIDDEN, Params, forbidden_names, load_params
from envace.rl.settings import UpdateSettings

ROOT = Path(__file__).parents[1]
CONF = ROOT / "conf"
PROFILES = sorted(path.stem for path in (CONF / "profile").glob("*.yaml"))


def one_line(error: pytest.ExceptionInfo[EnvaceError]) -> str:
    text = str(error.value)
    assert "\n" not in text and error.value.mend
    return text


def test_params_yaml_is_what_the_groups_compose_to() -> None:
    assert yaml.safe_load((ROOT / "params.yaml").read_text()) == yaml.safe_load(compose(folder=CONF))


@pytest.mark.parametrize("profile", PROFILES)
def test_every_profile_is_valid(profile: str) -> None:
    params = Params.model_validate(yaml.safe_load(compose([f"profile={profile}"], CONF)))
    assert params.profile == profile


def test_there_are_profiles_and_smoke_is_smaller() -> None:
    assert {"tiny", "smoke"} <= set(PROFILES)
    tiny, smoke = (yaml.safe_load(compose([f"profile={name}"], CONF)) for name in ("tiny", "smoke"))
    assert smoke["synthesize"]["demonstrations"] < tiny["synthesize"]["demonstrations"]
    assert smoke["train"]["steps"] < tiny["train"]["steps"]


@pytest.mark.parametrize("profile", ["qwen3_1_7b", "qwen3_8b"])
def test_the_qwen_profiles_hold_the_hyper_parameters_of_the_paper(profile: str) -> None:
    params = Params.model_validate(yaml.safe_load(compose([f"profile={profile}"], CONF)))
    train = params.train
    assert (train.rate, train.chained_tasks + train.committing_tasks, train.group) == (1e-6, 16, 4)
    assert (train.update.environment, train.update.std) == ("grpo", False)
    assert (train.update.mask_untrue, train.update.entropy) == (False, 0.0)
    assert (params.gate.enforced, params.gate.agreement) == (True, 0.8)
    update = UpdateSettings()
    assert (update.clip_low, update.clip_high, update.dual_clip, update.kl) == (0.2, 0.2, 3.0, 0.0)
    assert (update.aggregation, update.temperature) == ("token_mean", 1.0)
    # An update of 1e-6 is lost in the rounding of a bfloat16 weight.
    assert params.scale.dtype == "float32" and params.scale.lora is None


def test_only_float32_weights_are_trained() -> None:
    for path in sorted((CONF / "scale").glob("*.yaml")):
        scale = Params.model_validate(yaml.safe_load(compose([f"scale={path.stem}"], CONF))).scale
        assert scale.dtype == "float32" or scale.lora is not None, path
        assert scale.launch is None or (ROOT / scale.launch).is_file(), path


@pytest.mark.parametrize("path", sorted((CONF / "accelerate").glob("*.yaml")), ids=lambda p: p.stem)
def test_accelerate_reads_its_configurations(path: Path) -> None:
    from accelerate.commands.config.config_args import load_config_from_file

    config = load_config_from_file(str(path))
    assert path.stem == f"gpu_{config.num_processes}"
    assert (config.distributed_type, config.num_processes % config.num_machines) == ("MULTI_GPU", 0)


@pytest.mark.parametrize("path", [ROOT / "params.yaml", *sorted(CONF.rglob("*.yaml"))], ids=lambda p: p.stem)
def test_no_parameter_has_a_name_that_dvc_ignores(path: Path) -> None:
    assert forbidden_names(yaml.safe_load(path.read_text())) == []


def test_forbidden_names_are_found_at_any_depth() -> None:
    assert FORBIDDEN == ("size", "nfiles")
    planted = {"size": 1, "a": {"b": [{"c": 1}, {"nfiles": {"size": 2}}]}, "sizes": 3}
    assert forbidden_names(planted) == ["size", "a.b[1].nfiles", "a.b[1].nfiles.size"]


def test_overrides_reach_the_composition() -> None:
    params = Params.model_validate(
        yaml.safe_load(compose(["train.rate=5e-4", "seed=7", "train.update.environment=grpo"], CONF))
    )
    assert (params.train.rate, params.seed, params.train.update.environment) == (5e-4, 7, "grpo")


@pytest.mark.parametrize(
    ("override", "named"),
    [("profile=nope", "profile/nope"), ("train.nope=1", "train.nope"), ("train.rate", "train.rate")],
)
def test_a_wrong_override_is_one_line_that_names_it(override: str, named: str) -> None:
    with pytest.raises(EnvaceError) as error:
        compose([override], CONF)
    assert named in one_line(error)


@pytest.mark.parametrize(
    ("line", "planted", "named"),
    [
        ("    entropy: 0.0", "    entropy: 0.0\n    entropi: 1", "train.update.entropi"),
        ("  group: 8", "  group: 1", "train.group"),
        ("  hidden: 128", "  hidden: 100", "model.hidden"),
        ("    environment: observe", "    environment: guess", "train.update.environment"),
        ("  wrong_call_rate: 0.15", "  wrong_call_rate: 1.5", "synthesize.wrong_call_rate"),
        ("  layers: 4", "  layers: four", "model.layers"),
        ("  layers: 4", "  layers: 4\n  size: 4", "model.size"),
        ("  source: scratch", "  source: magic", "model"),
        ("  source: scratch", "  source: hub", "model.name"),
        ("  lora: null", "  lora: {rank: 0, alpha: 8, targets: [q_proj]}", "scale.lora.rank"),
        ("  device: cpu", "  device: tpu", "scale.device"),
        ("  shard: false", "  shard: true", "set engine to vllm"),
        ("seed: 1", "", "seed"),
    ],
)
def test_a_wrong_file_is_one_line_with_file_and_parameter(
    tmp_path: Path, line: str, planted: str, named: str
) -> None:
    text = (ROOT / "params.yaml").read_text()
    assert f"\n{line}\n" in text
    path = tmp_path / "params.yaml"
    path.write_text(text.replace(f"\n{line}\n", f"\n{planted}\n"))
    with pytest.raises(EnvaceError) as error:
        load_params(path)
    assert f"{path}: " in one_line(error) and named in one_line(error)


def test_an_absent_file_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(EnvaceError) as error:
        load_params(tmp_path / "params.yaml")
    assert "no such file" in one_line(error)


def test_an_invalid_composition_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    path = tmp_path / "params.yaml"
    write_params(["seed=3"], path)
    old = path.read_bytes()
    assert load_params(path).seed == 3
    with pytest.raises(EnvaceError):
        write_params(["train.group=1"], path)
    assert path.read_bytes() == old
    assert [p.name for p in tmp_path.iterdir()] == ["params.yaml"]
