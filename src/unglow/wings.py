"""The wing of slides for commands and rules, which run pairs without it too."""

try:
    from unglow.slides.rules import SLIDES
except ModuleNotFoundError as error:
    if error.name != "unglow.slides":
        raise
    from unglow.workflow.batch import NO_SLIDES as SLIDES

__all__ = ["SLIDES"]
