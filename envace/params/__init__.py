"""Parameters of the workflow: `params.yaml`, validated; a file for each part of `conf/`."""

from envace.params.data import (
    ChatParams,
    FilterParams,
    LeakageParams,
    SplitParams,
    SynthesizeParams,
)
from envace.params.learning import EvaluateParams, GateParams, TrainParams, WarmupParams
from envace.params.model import (
    HubModel,
    LoraParams,
    ModelParams,
    RevisionModel,
    ScaleParams,
    ScratchModel,
    WheelModel,
)
from envace.params.project import Params, forbidden_names, load_params
from envace.params.section import Section

__all__ = [
    "ChatParams",
    "EvaluateParams",
    "FilterParams",
    "GateParams",
    "HubModel",
    "LeakageParams",
    "LoraParams",
    "ModelParams",
    "Params",
    "RevisionModel",
    "ScaleParams",
    "ScratchModel",
    "Section",
    "SplitParams",
    "SynthesizeParams",
    "TrainParams",
    "WarmupParams",
    "WheelModel",
    "forbidden_names",
    "load_params",
]
