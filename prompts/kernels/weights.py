import enum
import functools
import hashlib
import operator

import torch


def _stark_weights(module, x, made_for, digest, mode_matters, unread=()):
    """A module's tensors that kernels read; None where these, its parts, settings or hooks are others."""
    found = vars(module).get("_stark_found")
    known = found and found[8] == id(module)  # copy.copy has the same
    if not known or not all(map(operator.ge, *found[:2])) or list(map(len, found[0])) != found[6]:
        found = module._stark_found = None
        told, held, watched, absent, parts = [], [], [], [], dict(module.named_modules())
        for path, part in parts.items():
            names = [name for name in sorted(vars(part)) if name[0] != "_" or name in ("_size", "_keys")]
            names = [name for name in names if (mode_matters or name != "training") and name not in unread]
            plain = {name: vars(part)[name] for name in names if _stark_is_plain(vars(part)[name])}
            kinds = [(name, _stark_kind(one)) for name, one in part._modules.items()]
            hooks = {} if part is module else {key: dict(getattr(part, key)) for key in _STARK_HOOKS}
            names = [_stark_name(hook) for kind in hooks.values() for hook in kind.values()]
            owns = (part._parameters, part._buffers, part._modules)
            loose = {name: one for name, one in vars(part).items() if isinstance(one, torch.Tensor)}
            has = sorted((key, one is None) for each in (*owns, loose) for key, one in each.items())
            told.append((path, kinds, {k: _stark_told(x) for k, x in plain.items()}, names, has))
            absent += [(each, key) for each in owns for key in each if each[key] is None]
            held.append(vars(part).items())
            watched.append({**_stark_told(plain, names=False), **hooks, "_modules": dict(part._modules)}.items())
            # What the code may ask for by `hasattr` is registered later.
            own = [] if type(part).__module__[:6] == "torch." else owns[:2]
            held += [each.keys() for each in own]
            watched += [frozenset(each) for each in own]
        right = hashlib.sha256(repr(told).encode()).hexdigest()[:16] == digest
        right = right and not any("forward" in vars(part) for part in parts.values())
        found = _StarkFound((held, watched, None, None, [], [], list(map(len, held)), absent, id(module)))
        module._stark_found = found
        if not right or not all(map(operator.ge, held, watched)):
            return None
        names = [name.split(".", 1)[1].rpartition(".") for name in made_for]
        owners = [(parts[path], name) for path, _, name in names]
        kinds = ("_parameters", "_buffers", "__dict__")
        places = [(part, next((k for k in kinds if name in getattr(part, k)), ""), name) for part, name in owners]
        found[2] = places
    if found[2] is None or not all(kind for _, kind, _ in found[2]):
        return None
    if any(each.get(key) is not None for each, key in found[7]):  # a bias that there was not
        return None
    weights, device = [getattr(part, kind).get(name) for part, kind, name in found[2]], getattr(x, "device", None)
    # Other weights, or other memory of the same ones, are looked at; other values are not.
    same = found[3] == device and all(map(operator.is_, weights, found[4]))
    if not same or _stark_memory(weights) != found[5]:
        usual = (torch.Tensor, torch.nn.Parameter)  # another kind may mean other numbers
        whole = all(type(w) in usual and w.device == device for w in weights)
        if not whole or [(w.shape, w.stride(), w.dtype) for w in weights] != list(made_for.values()):
            return None
        found[3:6] = device, weights, _stark_memory(weights)
    return weights


def _stark_memory(weights):
    """Where they lie and how: `weight.data = weight.data.t()` begins at the same place."""
    return [list(map(ask, weights)) for ask in (torch.Tensor.data_ptr, torch.Tensor.stride, torch.Tensor.numel)]


_STARK_HOOKS = ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks")


def _stark_name(hook):
    return f"{getattr(hook, '__module__', '')}.{getattr(hook, '__name__', '')}"


class _StarkFound(list):
    """What was found of a module; a copy of it, which has others, has to look itself."""

    def __reduce__(self):
        return list, ()


def _stark_is_plain(x):
    if isinstance(x, (tuple, list, dict)):
        return len(x) <= 64 and all(map(_stark_is_plain, [*x, *x.values()] if isinstance(x, dict) else x))
    if isinstance(x, functools.partial):
        return _stark_is_plain([x.func, x.args, x.keywords])
    kinds = (bool, int, float, str, torch.dtype, enum.Enum, range, slice)
    return x is None or isinstance(x, (*kinds, *_STARK_FUNCTIONS))


_STARK_FUNCTIONS = (type(_stark_is_plain), type(torch.sigmoid))


def _stark_told(x, names=True):
    """A copy of a setting; as a digest is made of it, where a function has no address, functions by their names."""
    if isinstance(x, dict):
        return {_stark_told(key, names): _stark_told(one, names) for key, one in x.items()}
    if isinstance(x, (tuple, list)):
        return type(x)(_stark_told(one, names) for one in x) if type(x) in (tuple, list) else x
    if names and isinstance(x, functools.partial):
        return _stark_told([x.func, x.args, x.keywords])
    return x.__name__ if names and isinstance(x, _STARK_FUNCTIONS) else x
