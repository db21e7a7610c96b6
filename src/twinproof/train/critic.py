"""A critic that says how returns are spread: twin networks over fixed atoms (C51, Bellemare et al. 2017)."""

from __future__ import annotations

from typing import Any

from twinproof.train.networks import first_weights, mlp
from twinproof.train.torch_extra import torch_module


class Critic:
    """Two networks from (what is seen, action) to the probabilities of `atoms` returns from -reach to reach, each with
    a slow copy that targets are taken from."""

    def __init__(self, width: int, hidden: tuple[int, ...], atoms: int, reach: float, device: str) -> None:
        torch = torch_module()
        sizes = [width, *hidden, atoms]
        self.atoms = torch.linspace(-reach, reach, atoms, device=device)
        self._reach, self._step = reach, 2 * reach / (atoms - 1)
        self.nets = torch.nn.ModuleList([mlp(sizes, norm=True) for _ in range(2)])
        self.slow = torch.nn.ModuleList([mlp(sizes, norm=True) for _ in range(2)])
        for net in self.nets:
            first_weights(net, 0.01)
        self.nets.to(device)
        self.slow.to(device)
        self.slow.load_state_dict(self.nets.state_dict())
        self.slow.requires_grad_(False)

    def value(self, seen: Any, action: Any) -> tuple[Any, Any]:
        """The mean return that each network expects (N,)."""
        x = torch_module().cat([seen, action], dim=1)
        first, second = ((net(x).softmax(dim=1) * self.atoms).sum(dim=1) for net in self.nets)
        return first, second

    def target(self, seen: Any, action: Any, reward: Any, discount: Any, cautious: bool) -> tuple[tuple[Any, Any], Any]:
        """What the two networks should say of the row before, (N, atoms) each, and the share that lay beyond the atoms.

        Cautious: both follow the copy that expects less. Else each follows its own.
        """
        torch = torch_module()
        x = torch.cat([seen, action], dim=1)
        spread = [net(x).softmax(dim=1) for net in self.slow]
        if cautious:
            means = [(each * self.atoms).sum(dim=1, keepdim=True) for each in spread]
            spread = [torch.where(means[0] < means[1], *spread)] * 2
        places = (reward[:, None] + discount[:, None] * self.atoms + self._reach) / self._step
        beyond = ((places < 0) | (places > len(self.atoms) - 1)).float()
        outside = (spread[0] * beyond).sum(dim=1).mean()
        places = places.clamp(0, len(self.atoms) - 1)
        first = self._shared(spread[0], places)
        return (first, first if cautious else self._shared(spread[1], places)), outside

    def _shared(self, spread: Any, places: Any) -> Any:
        """Probabilities at places between the atoms, shared among the two nearest ones."""
        torch = torch_module()
        below = places.floor().clamp(max=len(self.atoms) - 2)
        upper = places - below
        index, found = below.nan_to_num(0.0).long(), torch.zeros_like(spread)  # what diverged shows in the loss
        found.scatter_add_(1, index, spread * (1 - upper))
        return found.scatter_add_(1, index + 1, spread * upper)

    def loss(self, seen: Any, action: Any, targets: tuple[Any, Any]) -> Any:
        """How surprising the targets are to the two networks."""
        x = torch_module().cat([seen, action], dim=1)
        pairs = zip(self.nets, targets, strict=True)
        return sum(-(target * net(x).log_softmax(dim=1)).sum(dim=1).mean() for net, target in pairs)

    def follow(self, rate: float) -> None:
        """Moves the slow copies towards the networks."""
        torch = torch_module()
        with torch.no_grad():
            torch._foreach_lerp_(list(self.slow.parameters()), list(self.nets.parameters()), rate)
