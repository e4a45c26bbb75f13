"""What log lines say: one frozen struct for each kind of event of the contract.

Parsers build them, ``identify`` completes ``rank`` and ``time``, rules read them. A class says itself who writes such
lines, what they can mean and how they read; its docstring is what ``nccldoctor explain KIND`` prints. Field names are
those of ``inspect --format json``. The order of these imports is that of ``KINDS``.
"""

from __future__ import annotations

from nccldoctor.events.base import *
from nccldoctor.events.calls import *
from nccldoctor.events.failures import *
from nccldoctor.events.life import *
from nccldoctor.events.records import *
from nccldoctor.events.sequence import Events as Events
