"""What every section of the configuration is made of."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Section(BaseModel):
    """What every section keeps: unknown keys are refused, values are final and not echoed."""

    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)
