"""Who answers in training, from parameters: the paper's comparison is one switch.

rehearsal   the policy itself (EnvACE)
simulator   a frozen model
real        the executable world, whose calls are then counted as real
replay      the recorded responses of the expert's calls; any other call gets an error
"""

from collections.abc import Callable, Sequence

from envace.chat import Template
from envace.chat.prompted import PromptedLayout
from envace.engines import Engine, Sampling
from envace.params import TrainParams
from envace.rl.experience import Answerer
from envace.rollout.responders import Cast, Responder, responder
from envace.trajectory import Task
from envace.worlds.tasks import solve


def make_answerer(
    params: TrainParams,
    policy: Engine,
    template: Template,
    simulator: Callable[[], Engine],
    layout: PromptedLayout | None,
) -> Answerer | None:
    """Who answers; None leaves it to one uninterrupted generation of the policy.

    Args:
        params: `answers` names who.
        policy: The policy.
        template: Its chat template.
        simulator: Makes the frozen model; called only where it answers.
        layout: Sections of the `prompted` layout; None is `inline`.
    """
    if params.answers == "rehearsal" and layout is None:
        return None
    frozen = simulator() if params.answers == "simulator" else None

    def answer(tasks: Sequence[Task], seed: int) -> Responder:
        sampling = Sampling(max_new_tokens=params.max_new_tokens, seed=seed)
        recorded = {task.id: [(step.call, step.response) for step in solve(task)[0]] for task in tasks}
        return responder(params.answers, Cast(policy, template, sampling, tasks, frozen, recorded, layout))

    return answer
