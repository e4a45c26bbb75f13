"""The nouns that pass between the stages: frozen, slotted, without behaviour of their own.

Field names of :class:`Finding`, :class:`RemedyAdvice`, :class:`Job`, :class:`Coverage` and
:class:`Action` are those of the published JSON (``schema/analyze.json``).
"""

from __future__ import annotations

from nccldoctor.model.causes import *
from nccldoctor.model.diagnosis import *
from nccldoctor.model.findings import *
from nccldoctor.model.inputs import *
