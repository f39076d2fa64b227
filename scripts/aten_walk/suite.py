#!/usr/bin/python3
"""Writes the names of PyTorch's operator suite with their aliases, one name per line, for graphrun ops --missing.

    scripts/aten_walk/suite.py > cli/internal/catalogue/suite.txt

The names are those of torch.testing's op_db. Requires torch 1.13.
"""
import sys
import types
import unittest

try:
    import expecttest  # noqa: F401  op_db imports it for assertions that are not called here
except ImportError:
    sys.modules["expecttest"] = types.SimpleNamespace(ACCEPT=False, TestCase=unittest.TestCase)

from torch.testing._internal.common_methods_invocations import op_db

names = {}
for op in op_db:
    names.setdefault(op.name, set()).update(a.name for a in op.aliases)
for name, aliases in sorted(names.items()):
    print(*[name] + sorted(aliases - {name}))
