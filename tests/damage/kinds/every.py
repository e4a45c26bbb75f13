"""Every kind of damage: the modules whose kinds register themselves."""

from damage.kinds import collectors, dumps, folders, forms, losses, mixed
from damage.kinds.registry import KINDS

__all__ = ["FAMILIES", "KINDS"]

FAMILIES = (losses, forms, collectors, dumps, folders, mixed)
