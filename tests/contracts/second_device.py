"""A second device that computes on the first, so that traffic between two is seen where there is only one.

A `Far` tensor says that it lives on `FAR` and holds its numbers in a tensor of the CPU. Inside `second_device()` what
asks for `FAR` gets such tensors, and every operation is looked at on its way.
"""

import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch._decomp.decompositions import gru_impl, lstm_impl
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

import rl_lightning

# The engine of autograd counts the devices once, here: one more would get a thread, and other tests could not fork.
torch.ones(1, requires_grad=True).sum().backward()
_setup_privateuseone_for_python_backend("far")
torch.far.get_amp_supported_dtype = lambda: [torch.bfloat16]  # type: ignore[attr-defined]
FAR = torch.device("far", 0)
SOURCE = str(Path(rl_lightning.__file__).parent)

# The host must know how many values there are, or one of them, before it can go on.
WAITS = {"_local_scalar_dense", "_unique2", "bincount", "equal", "masked_select", "nonzero", "unique_dim"}
INDEXING = {"index", "index_put", "index_put_"}


GENERATOR = torch.Generator


class Traffic:
    """What went between the two devices, and from which line of ours.

    Args:
        mixed: Operations on tensors of both, which a real device refuses.
        waits: Times the host stood still for a value of the other device.
        copies: Tensors that went from the host to the other device.
    """

    def __init__(self) -> None:
        self.mixed: Counter[str] = Counter()
        self.waits: Counter[str] = Counter()
        self.copies: Counter[str] = Counter()

    def watch(self, name: str, args: Any, kwargs: dict[str, Any], far_result: bool) -> None:
        tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
        far = [each for each in tensors if isinstance(each, Far)]
        # a number of the host may meet a tensor of any device
        near = [each for each in tensors if not isinstance(each, Far) and each.dim() > 0]
        if name in ("_to_copy", "copy_"):
            source = args[1] if name == "copy_" else args[0]
            if isinstance(source, Far) and not far_result and not kwargs.get("non_blocking"):
                self.waits[f"{name} {line()}"] += 1
            if not isinstance(source, Far) and far_result and source.dim() > 0:
                self.copies[f"{name} {line()}"] += 1
            return
        if name in INDEXING and isinstance(args[0], Far):
            index = [each for each in args[1] if each is not None]
            if any(each.dtype == torch.bool for each in index):
                self.waits[f"{name} {line()}"] += 1
            moved = [each for each in index if not isinstance(each, Far) and each.dim() > 0]
            if moved:
                self.copies[f"{name} {line()}"] += len(moved)
            near = [each for each in near if not any(each is other for other in moved)]
        if far and near:
            self.mixed[f"{name} {line()}"] += 1
        if far and name in WAITS:
            self.waits[f"{name} {line()}"] += 1


def line() -> str:
    """The innermost line of the package."""
    frame: Any = sys._getframe(1)
    while frame is not None and not frame.f_code.co_filename.startswith(SOURCE):
        frame = frame.f_back
    if frame is None:
        return "elsewhere"
    return f"{frame.f_code.co_filename.removeprefix(SOURCE)[1:]}:{frame.f_lineno}"


class Far(Tensor):
    """A tensor of the other device, with its numbers in `near`."""

    near: Tensor

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        return f"Far({self.near})"

    @staticmethod
    def __new__(cls, near: Tensor) -> "Far":
        made = Tensor._make_wrapper_subclass(  # type: ignore[attr-defined]
            cls, near.size(), strides=near.stride(), storage_offset=near.storage_offset(), dtype=near.dtype,
            layout=near.layout, device=FAR, requires_grad=near.requires_grad,
        )  # fmt: skip
        made.near = near
        return made

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return compute(func, args, kwargs or {}, Traffic())  # read once the mode is over: nobody counts


def is_far(device: Any) -> bool:
    return device is not None and torch.device(device).type == FAR.type


def compute(func: Any, args: Any, kwargs: dict[str, Any], traffic: Traffic) -> Any:
    """The operation on the CPU; its results live where the other device would have left them."""
    tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
    name = func._schema.name.split("::")[-1]
    if kwargs.get("device") is not None:
        far_result = is_far(kwargs["device"])
    elif name == "copy_":
        far_result = isinstance(args[0], Far)
    else:
        far_result = any(isinstance(each, Far) for each in tensors)
    traffic.watch(name, args, kwargs, far_result)
    if kwargs.get("device") is not None:
        kwargs = {**kwargs, "device": torch.device("cpu")}
    given = {id(each.near if isinstance(each, Far) else each): each for each in tensors}
    near_args, near_kwargs = tree_map(
        lambda each: each.near if isinstance(each, Far) else each, (args, kwargs)
    )

    def placed(result: Any) -> Any:
        if not isinstance(result, Tensor):
            return result
        if id(result) in given:  # an operation in place returns what it was given
            return given[id(result)]
        return Far(result) if far_result else result

    return tree_map(placed, func(*near_args, **near_kwargs))


class Watch(TorchDispatchMode):
    """Computes and counts."""

    def __init__(self, traffic: Traffic) -> None:
        super().__init__()
        self.traffic = traffic

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return compute(func, args, kwargs or {}, self.traffic)


class Above(TorchFunctionMode):
    """What torch does above its operations: lists that go in and out, who draws, and cells that the CPU has no fused
    ones of."""

    def __init__(self, traffic: Traffic) -> None:
        super().__init__()
        self.traffic = traffic

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        name = getattr(func, "__name__", "")
        if name in ("tensor", "as_tensor") and is_far(kwargs.get("device")):
            device = kwargs.pop("device")
            return func(*args, **kwargs).to(device)
        if args and isinstance(args[0], Far):
            if name == "new_tensor":
                return torch.tensor(args[1], dtype=kwargs.get("dtype") or args[0].dtype).to(FAR)
            if name == "tolist":
                return args[0].cpu().tolist()
            if name == "__getitem__" and isinstance(args[1], list):
                return func(args[0], torch.tensor(args[1]))
            func = {"lstm": lstm_impl, "gru": gru_impl, "lstm_cell": lstm_cell}.get(name, func)
        made = func(*args, **kwargs)
        draws = [each for each in (*args, *kwargs.values()) if isinstance(each, GENERATOR)]
        if any(isinstance(made, Far) != (each.device == FAR) for each in draws if isinstance(made, Tensor)):
            self.traffic.mixed[f"{name} drawn elsewhere {line()}"] += 1
        return made


def lstm_cell(
    inputs: Tensor, carry: list[Tensor], w_in: Tensor, w_hidden: Tensor, b_in: Tensor, b_hidden: Tensor
) -> tuple[Tensor, Tensor]:
    hidden, cell = carry
    gates = torch.nn.functional.linear(inputs, w_in, b_in) + torch.nn.functional.linear(
        hidden, w_hidden, b_hidden
    )
    enter, forget, new, out = gates.chunk(4, -1)
    cell = forget.sigmoid() * cell + enter.sigmoid() * new.tanh()
    return out.sigmoid() * cell.tanh(), cell


class Source(GENERATOR):
    """A generator that knows for which device it draws."""

    def __new__(cls, device: Any = "cpu") -> "Source":
        return super().__new__(cls)

    def __init__(self, device: Any = "cpu") -> None:
        self.far = is_far(device)

    @property
    def device(self) -> torch.device:  # type: ignore[override]
        return FAR if self.far else torch.device("cpu")


@contextmanager
def second_device() -> Iterator[Traffic]:
    """While it lasts, modules and tensors can be moved to `FAR`; tells what passes between it and the host."""
    traffic = Traffic()
    overwrite = torch.__future__.get_overwrite_module_params_on_conversion()
    torch.__future__.set_overwrite_module_params_on_conversion(
        True
    )  # a parameter cannot change its device in place
    torch.Generator = Source  # type: ignore[assignment,misc]
    try:
        with torch.autograd.set_multithreading_enabled(False), Watch(traffic), Above(traffic):
            yield traffic
    finally:
        torch.Generator = GENERATOR  # type: ignore[misc]
        torch.__future__.set_overwrite_module_params_on_conversion(overwrite)
