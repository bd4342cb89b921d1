"""How a world model sees and shows Dict observations: convolutions for pictures, dense layers for the rest."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor, nn

from rl_lightning.factories import class_of, make
from rl_lightning.models.rssm.decoders import ConvDecoder, DecoderFactory, MLPDecoder, ObservationDecoder
from rl_lightning.models.rssm.encoders import ConvEncoder, MLPEncoder
from rl_lightning.nn.cnn import CNN
from rl_lightning.nn.make_torso import make_feed_forward
from rl_lightning.nn.multi_input import MultiInput
from rl_lightning.nn.torso import FeedForward, Network, Shape, as_float
from rl_lightning.observations import ObsLayout, ObsPart


class MultiDecoder(ObservationDecoder):
    """A decoder for each part of a Dict observation; their losses are summed; what they predict stands side by
    side, flattened.

    Args:
        decoders: Decoder of a part by its name; others get a ConvDecoder (pictures) or an MLPDecoder.
        ignore: Parts that are not shown.
    """

    takes_layout = True

    def __init__(
        self,
        feature_dim: int,
        deter: int,
        layout: ObsLayout,
        /,
        decoders: dict[str, DecoderFactory] | None = None,
        ignore: list[str] | None = None,
    ) -> None:
        super().__init__()
        decoders = decoders or {}
        self.layout, self.shown_parts = layout, layout.parts_seen("decoder", decoders, ignore or [])
        self.decoders = nn.ModuleList(
            make(
                decoders.get(part.name) or (ConvDecoder if part.kind == "picture" else MLPDecoder),
                ObservationDecoder, f"decoder.decoders.{part.name}", feature_dim, deter, part.shape,
            )
            for part in self.shown_parts
        )  # fmt: skip

    def loss(self, feature: Tensor, obs: Tensor) -> Tensor:
        seen = self.layout.split(obs)
        losses = [decoder.loss(feature, seen[part.name]) for part, decoder in self._pairs()]
        return torch.stack(losses).sum(0)

    def predict(self, feature: Tensor) -> Tensor:
        return torch.cat([_flat(decoder.predict(feature), part) for part, decoder in self._pairs()], -1)

    def comparable(self, obs: Tensor) -> Tensor:
        seen = self.layout.split(obs)
        return torch.cat([_flat(as_float(seen[part.name]), part) for part in self.shown_parts], -1)

    def split(self, prediction: Tensor) -> dict[str, Tensor]:
        """What `predict` gave, by the names of the parts."""
        pieces = prediction.split([part.size for part in self.shown_parts], -1)
        return {
            p.name: piece.unflatten(-1, p.shape) for p, piece in zip(self.shown_parts, pieces, strict=True)
        }

    def _pairs(self) -> list[tuple[ObsPart, ObservationDecoder]]:
        return list(zip(self.shown_parts, self.decoders, strict=True))  # type: ignore[arg-type]


def _flat(values: Tensor, part: ObsPart) -> Tensor:
    return values.flatten(-len(part.shape))


def make_encoder(encoder: Network | None, obs: Shape) -> FeedForward:
    """What sees observations. Of a Dict with pictures, an encoder of one array sees the parts that it is made for."""
    network = encoder or MLPEncoder
    kind = class_of(network)
    if not isinstance(obs, ObsLayout) or not obs.has_pictures or getattr(kind, "takes_layout", False):
        return make_feed_forward(network, obs, "encoder")
    sees_pictures = kind is not None and issubclass(kind, ConvEncoder | CNN)
    own = {
        "picture": network if sees_pictures else ConvEncoder,
        "vector": MLPEncoder if sees_pictures else network,
    }
    return MultiInput(
        obs, {part.name: own["picture" if part.kind == "picture" else "vector"] for part in obs.parts}
    )


def make_decoder(decoder: DecoderFactory | None, width: int, deter: int, obs: Shape) -> ObservationDecoder:
    """What shows them again, in the same way."""
    factory: DecoderFactory = decoder or MLPDecoder
    kind = class_of(factory)
    if isinstance(obs, ObsLayout) and not getattr(kind, "takes_layout", False):
        if not obs.has_pictures:
            return make(factory, ObservationDecoder, "decoder", width, deter, (obs.width,))
        shows_pictures = kind is not None and issubclass(kind, ConvDecoder)
        same = [part.name for part in obs.parts if (part.kind == "picture") == shows_pictures]
        factory = partial(MultiDecoder, decoders=dict.fromkeys(same, factory))
    return make(factory, ObservationDecoder, "decoder", width, deter, obs)
