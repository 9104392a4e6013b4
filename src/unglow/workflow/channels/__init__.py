"""Which channels carry the signal, decided once per pair for both images together.

Each image is sampled by blocks. In each channel the background level and the noise are estimated
robustly, and what rises above both is summed: the channel's signal. A channel is taken if its share
of the signal, averaged over the images of the pair, is at least `TAKEN`, and if it is seen (`SEEN`)
in each image that shows a signal at all. So bleed-through into another channel of one image alone,
or the colour noise of JPEG, changes nothing. Several channels are summed when they are read.

On a bright background (transmitted light) what falls below it is the signal. Alpha never counts.
"""

from __future__ import annotations

from unglow.workflow.channels.choice import ChannelChoice, choose_channels, decide
from unglow.workflow.channels.measure import ChannelSample, measure
from unglow.workflow.channels.setting import AUTO, ChannelSetting, parse_channels, stored_dtype

__all__ = [
    "AUTO",
    "ChannelChoice",
    "ChannelSample",
    "ChannelSetting",
    "choose_channels",
    "decide",
    "measure",
    "parse_channels",
    "stored_dtype",
]
