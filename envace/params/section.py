"""What all sections of the parameters have in common."""

from pydantic import BaseModel, ConfigDict


class Section(BaseModel):
    """Base of all sections: immutable, unknown names refused."""

    model_config = ConfigDict(frozen=True, extra="forbid")
