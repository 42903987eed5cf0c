"""Troubles as data: what is wrong with a node or a job, and which rule names it with which remedy."""

from . import troubles_of_jobs, troubles_of_software

TROUBLES = {**troubles_of_jobs.TROUBLES, **troubles_of_software.TROUBLES}
