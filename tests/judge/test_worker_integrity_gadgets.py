"""Ways around the reader in Python, and the honest code that looks like them."""

from __future__ import annotations

import pytest

from stark_lsp.judge.integrity import check, flags

HEAD = "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n"
WORD = "def word(*codes):\n    return bytes(codes).decode()\n"
FRAME = "bytes([116, 98, 95, 102, 114, 97, 109, 101]).decode()"


def candidate(before: str = "", body: str = "return x", init: str = "", decorated: str = "") -> str:
    """Return a candidate with statements before its class, in its constructor and in its forward."""
    lines = "".join(f"        {line}\n" for line in body.splitlines())
    made = "".join(f"        {line}\n" for line in init.splitlines())
    start = f"    def __init__(self):\n        super().__init__()\n{made}"
    return f"{HEAD}{before}\n\n\nclass ModelNew(nn.Module):\n{start}{decorated}    def forward(self, x):\n{lines}"


@pytest.mark.parametrize(
    "before",
    [
        "try:\n    1 / 0\nexcept Exception as e:\n    e.__traceback__",
        "try:\n    1 / 0\nexcept Exception as e:\n    raise e.with_traceback(None)",
        "def g():\n    yield 1\nmatch g():\n    case object(gi_frame=f):\n        print(f)",
        "match torch:\n    case object(os=o):\n        o.listdir('/')",
        "match {'m': torch}:\n    case {'m': object(sys=object(modules=m))}:\n        print(m)",
        "match [torch]:\n    case [object(os=o)]:\n        o.listdir('/')",
        "import string\nstring.Formatter().vformat('{0}', (1,), {})",
        "from string import Formatter as P\nP().get_field('0', (1,), {})",
        "import operator\noperator.methodcaller('__getattribute__', 'x')(torch)",
        f"import operator\noperator.attrgetter({FRAME})(torch)",
        "import operator\nf = operator.attrgetter\nprint([f])",
        WORD + "getattr(torch, word(115, 121, 115))",
        WORD + "hasattr(torch, word(115, 121, 115))",
        WORD + "setattr(torch, word(115, 121, 115), None)",
        "getattr(*[torch, 'sys'])",
        "take = lambda o, n: getattr(o, n)\nlist(map(take, [torch], ['os']))",
        "def take(o, n):\n    return getattr(o, n)\nlist(map(take, [torch], ['os']))",
        "for n in dir(torch):\n    print(n)",
        "for n in vars(torch):\n    print(n)",
        "for n in ('float32', 'os'):\n    getattr(torch, n).listdir('/')",
        "import random\nrandom._os.listdir('/')",
        "import collections\nprint(collections._sys)",
        "from contextlib import _collections_abc",
        "import logging\nlogging.currentframe()",
        "import logging.config",
        "import typing\ntyping.get_type_hints(torch.relu)",
        "import timeit\ntimeit.timeit('1')",
        "from torch.utils.benchmark import Timer",
        "import torch.utils.benchmark as b",
        "import pydoc\npydoc.locate('os')",
        "help(1)",
        "import sympy\nsympy.sympify('1')",
        "import numpy.testing as t",
        "import gettext",
        "import torch.fx.graph_module as g",
        "torch.fx.Interpreter(nn.Module())",
        "torch.fx.GraphModule({}, None)",
        "import torch._dynamo.bytecode_transformation",
        "from torch._inductor.codecache import PyCodeCache",
        "torch._jit_internal.createResolutionCallbackFromFrame(1)",
        "torch._import_dotted_name('os.system')",
        "import torch.utils._traceback",
        "import importlib.metadata as m\nm.EntryPoint('a', 'os:system', 'b').load()('id')",
        "import importlib.util as u\nu.find_spec('os').loader.load_module('os')",
        "from torch.utils.data import DataLoader\nDataLoader([1], num_workers=2)",
        "from torch.utils.data import DataLoader\nDataLoader([1], **{'num_workers': 2})",
        "def f(a: 'print(1)'):\n    return a",
        "def f(a) -> 'x.__class__':\n    return a",
        "def f(a):\n    # type: (print(1)) -> Tensor\n    return a",
        "u = torch.jit.CompilationUnit('def f(x):\\n    return torch.jit.fork(g, x)')",
        WORD + "u = torch.jit.CompilationUnit(word(1, 2))",
        "class K:\n    def __instancecheck__(self, x):\n        return True",
        WORD + "class K:\n    __match_args__ = (word(115, 121, 115),)",
        "class K:\n    __match_args__ = ('__globals__',)",
        "import weakref\nweakref.finalize(torch, print, 1)",
        "import functools\n@functools.singledispatch\ndef f(x):\n    return x",
    ],
)
def test_what_leads_around_the_reader_is_refused(before: str) -> None:
    refusal = check(candidate(before), "ModelNew")
    assert refusal is not None
    assert refusal.line is not None
    assert refusal.line > 3


@pytest.mark.parametrize(
    ("before", "init", "body"),
    [
        ("", "", "return getattr(F, 'relu')(x)"),
        ("", "", "name = 'relu' if x.dim() > 1 else 'gelu'\nreturn getattr(F, name)(x)"),
        ("NAMES = {torch.float32: 'relu', torch.float64: 'gelu'}", "", "return getattr(F, NAMES[x.dtype])(x)"),
        ("NAMES = {torch.float32: 'relu'}", "", "return getattr(F, NAMES.get(x.dtype))(x)"),
        (
            "",
            "for i in range(3):\n    setattr(self, f'layer{i}', nn.Linear(2, 2))",
            "return getattr(self, f'layer{1}')(x)",
        ),
        ("", "self.w0 = 1.0", "return x * getattr(self, 'w' + str(0))"),
        ("", "self.w0 = 1.0", "return x * getattr(self, 'w%d' % 0)"),
        ("", "self.w0 = 1.0", "return x * getattr(self, 'w{}'.format(0))"),
        ("", "for n in ('a', 'b'):\n    setattr(self, n, 1.0)", "return x * sum(getattr(self, n) for n in ('a', 'b'))"),
        ("", "for n, p in nn.Linear(2, 2).named_parameters():\n    setattr(self, n.replace('.', '_'), p)", "return x"),
        (
            "for name, dtype in (('f', torch.float32), ('d', torch.float64)):\n    print(hasattr(torch, name))",
            "",
            "return x",
        ),
        ("def act(name):\n    return getattr(F, name)\nRELU = act('relu')", "", "return RELU(x)"),
        ("def has(name):\n    return hasattr(torch, name)\nif has('compile'):\n    pass", "", "return x"),
        ("for n in 'relu gelu'.split():\n    getattr(F, n)", "", "return x"),
        ("import operator\nget = operator.attrgetter('shape')", "", "return x.view(get(x))"),
        ("import operator\nitem = operator.itemgetter(0)", "", "return item([x])"),
        ("import operator\ncall = operator.methodcaller('relu')", "", "return call(x)"),
        ("import string\nT = string.Template('$a')\nprint(T.substitute(a=1), string.ascii_letters)", "", "return x"),
        ("torch._dynamo.config.cache_size_limit = 64", "", "return x"),
        ("import torch._inductor.config as c\nc.max_autotune = True", "", "return x"),
        ("import torch._dynamo", "", "return x"),
        ("from torch.nn.modules.utils import _pair, _triple", "self.k = _pair(3)", "return x"),
        ("from torch.nn.modules.batchnorm import _BatchNorm", "", "return x"),
        ("", "nn.init._calculate_fan_in_and_fan_out(torch.ones(2, 2))", "return x"),
        ("", "", "return torch._foreach_add([x], 1.0)[0]"),
        ("", "", "return torch._scaled_mm(x, x.t(), x, x)"),
        ("", "", "torch._check(x.dim() > 0)\nreturn x"),
        ("", "", "torch._assert(x.dim() > 0, 'x')\nreturn torch.ops._C.relu(x)"),
        ("def backend(gm: torch.fx.GraphModule, inputs):\n    return gm.forward", "", "return x"),
        (
            "from typing import Optional\ndef f(x: 'Optional[torch.Tensor]' = None) -> 'torch.Tensor':\n    return x",
            "",
            "return x",
        ),
        ("def f(x: 'Float[Tensor, \"b (h w)\"]'):\n    return x", "", "return x"),
        (
            "def f(x):\n    # type: (Tensor) -> Tuple[Tensor, int]\n    return x, 1  # type: ignore[return]",
            "",
            "return x",
        ),
        ("u = torch.jit.CompilationUnit('def f(x):\\n    return x + 1')", "", "return u.f(x)"),
        ("from torch.utils.data import DataLoader\nloader = DataLoader([1], num_workers=0)", "", "return x"),
        ("class P:\n    __match_args__ = ('a', 'b')", "", "return x"),
        ("match 3:\n    case int():\n        pass\n    case object(real=r):\n        print(r)", "", "return x"),
        ("", "", "match x.dim():\n    case 2:\n        return x\n    case n:\n        return x + n"),
        (
            "import collections\nPair = collections.namedtuple('Pair', 'a b')",
            "",
            "return x * Pair(1, 2)._replace(a=2).a",
        ),
    ],
)
def test_honest_code_that_looks_alike_passes(before: str, init: str, body: str) -> None:
    assert check(candidate(before, body, init), "ModelNew") is None


def test_an_attribute_that_the_original_takes_by_its_setting_may_be_taken_by_the_candidate() -> None:
    body = "        return getattr(F, self.name)(x)\n"
    text = f"{HEAD}class Model(nn.Module):\n    def __init__(self, name):\n        super().__init__()\n        self.name = name\n"
    text += f"    def forward(self, x):\n{body}"
    assert check(text.replace("Model(", "ModelNew("), "ModelNew", text) is None
    assert check(text.replace("Model(", "ModelNew("), "ModelNew") is not None


@pytest.mark.parametrize(
    ("before", "body"),
    [
        ("kept = {}", "k = float(x.sum())\nif k not in kept:\n    kept[k] = x + 1\nreturn kept[k] + 0"),
        (
            "kept = {}",
            "k = x.sum().item()\ny = kept.get(k)\nif y is None:\n    y = x + 1\n    kept[k] = y\nreturn y.clone()",
        ),
        ("kept = {}", "k = tuple(x[0].tolist())\ny = kept.setdefault(k, x + 1)\nreturn y + 0"),
        ("kept = {}", "k = (x.shape, str(x[0, 0].item()))\nkept[k] = kept.get(k, x + 1)\nreturn kept[k] * 1"),
        (
            "kept = {}\ndef key(t):\n    return int(t.sum() * 100)",
            "k = key(x)\nkept[k] = kept.get(k, x + 1)\nreturn kept[k] * 1",
        ),
        ("kept = {}\nimport zlib_ as z", "k = z.crc(x.numpy())\nkept[k] = kept.get(k, x + 1)\nreturn kept[k] * 1"),
        ("kept = [None] * 8", "k = int(x.sum()) % 8\nif kept[k] is None:\n    kept[k] = x + 1\nreturn kept[k] * 1"),
        ("kept = {}", "k = hash(x.sum().item())\nkept[k] = kept.get(k, x + 1)\nreturn kept[k] * 1"),
        (
            "last = {'k': None}",
            "k = x.mean().item()\nif last['k'] == k:\n    return last['y'] * 1\nlast['k'] = k\nlast['y'] = x\nreturn x",
        ),
        (
            "import functools\n@functools.cache\ndef f(v):\n    return torch.tensor(v)",
            "return f(tuple(x.flatten().tolist()))",
        ),
        ("", "x.known = x + 1\nreturn x.known * 1"),
        (
            "def run(t, box={}):\n    k = float(t.max())\n    box[k] = box.get(k, t + 1)\n    return box[k] * 1",
            "return run(x)",
        ),
    ],
)
def test_results_kept_by_what_inputs_hold_are_refused(before: str, body: str) -> None:
    refusal = check(candidate(before, body), "ModelNew")
    assert refusal is not None
    assert refusal.line is not None


@pytest.mark.parametrize(
    ("before", "body"),
    [
        (
            "tables = {}",
            "k = (x.shape[-1], x.dtype, str(x.device))\nif k not in tables:\n    tables[k] = torch.arange(k[0])\nreturn x + tables[k]",
        ),
        (
            "blocks = {}",
            "n = int(x.numel())\nif n not in blocks:\n    blocks[n] = (n + 255) // 256\nreturn x * blocks[n]",
        ),
        ("", "if float(x.max()) < 60:\n    return x.exp()\nreturn torch.softmax(x, -1)"),
        ("", "counts = x.long().sum(-1).tolist()\nreturn torch.cat([x[i : i + 1] * c for i, c in enumerate(counts)])"),
        ("", "for e in x.long().unique().tolist():\n    x = x + self.experts[e]\nreturn x"),
        ("", "out = {}\nfor v in x.flatten().tolist():\n    out[v] = out.get(v, 0) + 1\nreturn x * len(out)"),
        (
            "import functools\n@functools.lru_cache(maxsize=None)\ndef tile(n):\n    return 64 if n > 64 else 16",
            "return x * tile(x.shape[-1])",
        ),
        (
            "import functools\n@functools.cache\ndef tile(n, dtype):\n    return 64",
            "return x * tile(int(x.numel()), x.dtype)",
        ),
        ("def run(t, n):\n    return t * n", "return run(x, x.shape[0])"),
        ("", "y = torch.empty_like(x)\ny.requires_grad = False\nx.requires_grad = False\nreturn y.copy_(x)"),
    ],
)
def test_tables_by_shape_and_choices_by_content_pass(before: str, body: str) -> None:
    assert check(candidate(before, body), "ModelNew") is None


@pytest.mark.parametrize(
    ("source", "refused"),
    [
        ("ctypes.CDLL(None)", True),
        ("ctypes.CDLL(name=None)", True),
        ("ctypes.CDLL(None or '')", True),
        ("ctypes.CDLL('x' if torch.cuda.is_available() else None)", True),
        ("NAME = None\nctypes.CDLL(NAME)", True),
        ("ctypes.CDLL(load_inline('a', [S], functions=None, is_python_module=False))", False),
        ("path = None\npath = load_inline('a', [S], is_python_module=False)\nlib = ctypes.CDLL(path)", False),
    ],
)
def test_only_a_none_in_place_of_a_librarys_name_opens_the_process(source: str, refused: bool) -> None:
    head = "import ctypes\nfrom torch.utils.cpp_extension import load_inline\nS = 'extern \"C\" void f(float* y) { y[0] = 1; }'\n"
    source = source.replace("ctypes.CDLL(l", "lib = ctypes.CDLL(l")
    refusal = check(candidate(head + source, "lib.f(x)\nreturn x"), "ModelNew")
    assert (refusal is not None and refusal.reason == "It opens its own process as a library.") is refused
    assert refused or refusal is None


@pytest.mark.parametrize(("space", "refused"), [("mine", False), ("others", True)])
def test_operators_of_torch_ops_count_as_the_kernel_that_registers_them(space: str, refused: bool) -> None:
    source = 'at::Tensor f(const at::Tensor& x) { return x + 1; }\\nTORCH_LIBRARY(mine, m) { m.def("f", &f); }'
    head = (
        f"from torch.utils.cpp_extension import load_inline\nload_inline('a', ['{source}'], is_python_module=False)\n"
    )
    refusal = check(candidate(head, f"return torch.ops.{space}.f(x)"), "ModelNew")
    assert (refusal is not None) is refused
    assert refusal is None or "never gets there" in refusal.reason


@pytest.mark.parametrize(
    ("code", "noted"),
    [
        ("__half h = __float2half(y[0]);", True),
        ("__nv_bfloat16 b;", True),
        ("auto z = x.to(at::kBFloat16);", True),
        ("_Float16 v = y[0];", True),
        ("float half = 0.5f; y[0] *= half;", False),
        ("if (x.scalar_type() == at::kHalf) return;", False),
        ('AT_DISPATCH_FLOATING_TYPES_AND2(at::kHalf, at::kBFloat16, x.scalar_type(), \\"f\\", [&] { g(); });', False),
        ("switch (t) { case at::kHalf: break; }", False),
    ],
)
def test_half_types_of_cpp_are_noted_where_the_original_has_none(code: str, noted: bool) -> None:
    source = f'extern \\"C\\" void f(float* y) {{ {code} }}'
    head = f'import ctypes\nfrom torch.utils.cpp_extension import load_inline\nlib = ctypes.CDLL(load_inline("a", ["{source}"]))\n'
    text = candidate(head, "lib.f(x)\nreturn x")
    original = f"{HEAD}class Model(nn.Module):\n    def forward(self, x):\n        return x\n"
    words = "It computes in a lower precision than the original does."
    assert check(text, "ModelNew", original) is None
    assert (words in {flag.reason for flag in flags(text, "ModelNew", original)}) is noted
    assert words not in {
        flag.reason for flag in flags(text, "ModelNew", original.replace("return x", "return x.half()"))
    }
