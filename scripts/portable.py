#!/usr/bin/env python3
"""Measures the portable path of one graphrun beside another one, case by case.

    go build -o new ./cmd/graphrun
    python3 scripts/portable.py OLD NEW --out first.json
    python3 scripts/portable.py OLD NEW --again first.json --above 1.04 --rounds 8 --out second.json
    python3 scripts/portable.py --show first.json second.json

OLD and NEW are binaries; OLD is the reference, such as the first version (commit 951397a). Cases are each op that
OLD has and that goes element by element, reductions, norms, scans and copies, in ten dtypes as far as both take them,
on 4,096 and on 262,144 elements. A graph of one op runs with one worker, GRAPHRUN_JIT=off, in a process of its own,
both binaries in turns; the least time of a run counts. Measure on a machine that is idle, and those again that seem
slower: where memory happens to lie makes a difference of some percent.
"""
import argparse
import collections
import functools
import json
import math
import os
import random
import re
import struct
import subprocess
import tempfile
import zipfile

FLOATS = ['float32', 'float64', 'float16', 'bfloat16']
INTS = ['int8', 'uint8', 'int32', 'int64']
DTYPES = FLOATS + INTS + ['bool', 'complex64']
SIZES = {'s': [64, 64], 'l': [512, 512]}

# By op: the number of operands and attributes, under what is added to the name.
FORMS = {
    'add': {'': (2, {}), '+alpha': (2, {'alpha': 2}), '+num': (1, {'other': 2})},
    'sub': {'': (2, {}), '+alpha': (2, {'alpha': 2}), '+num': (1, {'other': 2})},
    'mul': {'': (2, {}), '+num': (1, {'other': 3})},
    'div': {'': (2, {}), '+num': (1, {'other': 3}), '+floor': (2, {'rounding_mode': 'floor'}),
            '+trunc': (2, {'rounding_mode': 'trunc'})},
    'pow': {'': (2, {}), '+2': (1, {'exponent': 2}), '+3': (1, {'exponent': 3}), '+half': (1, {'exponent': 0.5}),
            '+2.5': (1, {'exponent': 2.5})},
    'clamp': {'': (1, {'min': 0, 'max': 1}), '+tensors': (3, {}), '+min': (1, {'min': 0})},
    'clamp_min': {'': (1, {'min': 0})}, 'clamp_max': {'': (1, {'max': 0})},
    'lerp': {'': (2, {'weight': 0.3}), '+tensor': (3, {}), '+0.7': (2, {'weight': 0.7})},
    'addcmul': {'': (3, {}), '+value': (3, {'value': 2})}, 'addcdiv': {'': (3, {}), '+value': (3, {'value': 2})},
    'threshold': {'': (1, {'threshold': 0.1, 'value': 1})},
    'gelu': {'': (1, {}), '+tanh': (1, {'approximate': 'tanh'})},
    'round': {'': (1, {}), '+2': (1, {'decimals': 2})},
    'logit': {'': (1, {}), '+eps': (1, {'eps': 1e-3})},
    'rsub': {'': (2, {}), '+num': (1, {'other': 1})},
    **{op: {'': (2, {}), '+num': (1, {'other': 0})} for op in ['eq', 'ne', 'lt', 'le', 'gt', 'ge']},
    **{op: {'': (2, {}), '+num': (1, {'other': 3})} for op in ['remainder', 'fmod', 'floor_divide']},
    'maximum': {'': (2, {})}, 'minimum': {'': (2, {})},
}
# Operands are from -1 to 1, or from 0 to 9 if whole; these are where else the first lies, and the others.
WITHIN = {**dict.fromkeys(['log', 'log2', 'log10', 'sqrt', 'rsqrt', 'lgamma', 'pow'], (0.1, 4)), 'acosh': (1, 4),
          'logit': (0.01, 0.99)}
DIVISORS = (1, 7)


def operand(name, dtype, shape, within=None, **more):
    return dict(name=name, dtype=dtype, shape=shape, within=within, **more)


def node(op, inputs, attrs=None, name='out'):
    return dict(name=name, op=op, inputs=inputs, **({'attrs': attrs} if attrs else {}))


def pointwise(cases, ops):
    for op in ops:
        count = sum(not p['optional'] for p in op['operands'])
        for tag, (n, attrs) in FORMS.get(op['name'], {'': (count, {})}).items():
            for d in DTYPES:
                dtypes = {'where': ['bool', d, d], 'masked_fill': [d, 'bool']}.get(op['name'], [d] * n)
                attrs = {'value': 1} if op['name'] == 'masked_fill' else attrs
                divides = d in INTS and n > 1 and re.search('div|rem|fmod|shift', op['name'])
                for size, shape in SIZES.items():
                    within = [WITHIN.get(op['name']) if d in FLOATS else None]
                    within += [DIVISORS if divides else None] * 2
                    ins = [operand(*x) for x in zip('xyz', dtypes, [shape] * len(dtypes), within)]
                    cases[f"{op['name']}{tag}/{d}/{size}"] = ins, [node(op['name'], list('xyz')[:len(ins)], attrs)]


def layouts(cases, size, shape):
    """Mixed dtypes, broadcast operands and strided ones."""
    rows, columns = shape
    for op in ['add', 'mul', 'lt', 'maximum']:
        def two(tag, d, x, y):
            cases[f'{op}+{tag}/{d}/{size}'] = [operand('x', d, **x), operand('y', **{'dtype': d, **y})], [node(op, ['x', 'y'])]
        for d, e in [('int32', 'float32'), ('float32', 'float64'), ('bool', 'float32'), ('uint8', 'int64'),
                     ('float16', 'float32'), ('bfloat16', 'float32'), ('int64', 'float32')]:
            two(e, d, dict(shape=shape), dict(dtype=e, shape=shape))
        for d in ['float32', 'float64', 'int32', 'bfloat16', 'uint8']:
            two('row', d, dict(shape=shape), dict(shape=[columns]))
            two('column', d, dict(shape=shape), dict(shape=[rows, 1]))
            two('mid', d, dict(shape=[16, rows // 16, columns]), dict(shape=[rows // 16, 1]))
            two('turned', d, dict(shape=shape), dict(shape=shape, strides=[1, rows]))
            two('every2nd', d, dict(shape=shape), dict(shape=shape, strides=[2 * columns, 2]))
    for op in ['relu', 'neg', 'exp', 'sqrt', 'sigmoid']:
        for d in ['float32', 'float64', 'bfloat16']:
            x = operand('x', d, shape, strides=[2 * columns, 2])
            cases[f'{op}+every2nd/{d}/{size}'] = [x], [node(op, ['x'])]


def reductions(cases, size, shape):
    along = {'rows': 1, 'cols': 0}
    ops = [(op, {}) for op in ['sum', 'mean', 'prod', 'amax', 'amin', 'any', 'all', 'argmax', 'argmin', 'max', 'min', 'var',
                               'std', 'var_mean', 'norm', 'linalg_vector_norm', 'logsumexp']]
    ops += [('norm', {'p': p}) for p in [1, 3, 'inf']]
    for op, attrs in ops:
        single = op in ['any', 'all', 'argmax', 'argmin', 'max', 'min']
        for tag, dim in {'all': None, **along}.items():
            a = dict(attrs)
            if dim is not None:
                a['dim'] = dim if single else [dim]
            elif op == 'logsumexp':
                a['dim'] = [0, 1]
            for d in DTYPES:
                p = f"+p{attrs['p']}" if attrs else ''
                cases[f'{op}{p}+{tag}/{d}/{size}'] = [operand('x', d, shape)], [node(op, ['x'], a)]
    for op in ['softmax', 'log_softmax', 'hardmax', 'cumsum', 'cumprod']:
        for tag, dim in along.items():
            for d in DTYPES if (op, tag) != ('cumprod', 'cols') else []:
                cases[f'{op}+{tag}/{d}/{size}'] = [operand('x', d, shape)], [node(op, ['x'], {'dim': dim})]


def norms(cases, size, shape):
    rows, columns = shape
    image, row = [4, 16, rows // 8, columns // 8], {'normalized_shape': [columns]}
    for d in FLOATS:
        def one(op, shapes, attrs, tag='', within=None):
            ins = [operand(n, d, s, within) for n, s in zip('xyzvw', shapes)]
            cases[f'{op}{tag}/{d}/{size}'] = ins, [node(op, [x['name'] for x in ins], attrs)]
        one('layer_norm', [shape], row)
        one('layer_norm', [shape, [columns], [columns]], row, '+affine')
        one('rms_norm', [shape, [columns]], row)
        one('group_norm', [image], {'num_groups': 4})
        one('instance_norm', [image], {'use_input_stats': True})
        one('batch_norm', [image] + [[16]] * 4, {}, within=(0.1, 1))
        one('prelu', [image, [16]], {})
        one('glu', [shape], {})


def copies(cases, size, shape):
    rows, columns = shape
    for d in ['float32', 'float64', 'bfloat16', 'uint8', 'int32', 'bool', 'complex64']:
        def one(tag, op, attrs=None, count=1, shape=shape):
            ins = [operand(n, d, shape) for n in 'xy'[:count]]
            cases[f'{tag}/{d}/{size}'] = ins, [node(op, list('xy')[:count], attrs)]

        def viewed(tag, op, attrs, shape=shape):
            nodes = [node(op, ['x'], attrs, 'view'), node('contiguous', ['view'])]
            cases[f'{tag}/{d}/{size}'] = [operand('x', d, shape)], nodes
        one('clone', 'clone')
        one('channels_last', 'clone', {'memory_format': 'channels_last'}, shape=[4, 16, rows // 8, columns // 8])
        one('flip', 'flip', {'dims': [1]})
        one('roll', 'roll', {'shifts': [3], 'dims': [1]})
        one('tril', 'tril')
        one('repeat', 'repeat', {'repeats': [2, 2]})
        one('pad', 'pad', {'pad': [1, 1, 1, 1]})
        one('cat0', 'cat', {'dim': 0}, 2)
        one('cat1', 'cat', {'dim': 1}, 2)
        one('stack', 'stack', {'dim': -1}, 2)
        viewed('transpose+contiguous', 'transpose', {'dim0': 0, 'dim1': 1})
        viewed('slice+contiguous', 'slice', {'dim': 1, 'step': 2})
        viewed('expand+contiguous', 'expand', {'size': [4] + shape})
        viewed('permute201', 'permute', {'dims': [2, 0, 1]}, [16, rows // 16, columns])
    for d in DTYPES:
        for e in [e for e in ['float32', 'float64', 'float16', 'bfloat16', 'int32', 'int64', 'uint8', 'bool'] if e != d]:
            cases[f'to+{e}/{d}/{size}'] = [operand('x', d, shape)], [node('to', ['x'], {'dtype': e})]


def all_cases(old, new):
    ops = {o['name']: o for o in json.loads(subprocess.check_output([new, 'ops', '--json']))['ops']}
    known = {o['name'] for o in json.loads(subprocess.check_output([old, 'ops', '--json']))['ops']}
    cases = {}
    pointwise(cases, [o for o in ops.values() if o['kind'] == 'follows' and o['name'] in known])
    for size, shape in SIZES.items():
        for family in [layouts, reductions, norms, copies]:
            family(cases, size, shape)
    return cases


@functools.cache
def array(dtype, shape, within):
    """An array within bounds, as a file of NumPy's."""
    draw, n = random.Random(1), math.prod(shape)
    low, high = within
    whole = dtype in INTS
    code = {'float16': 'e', 'float32': 'f', 'float64': 'd', 'int8': 'b', 'uint8': 'B', 'int32': 'i', 'int64': 'q'}[dtype]
    values = [draw.randint(low, high) if whole else draw.uniform(low, high) for _ in range(n)]
    kind = dict(e='<f2', f='<f4', d='<f8', b='|i1', B='|u1', i='<i4', q='<i8')[code]
    header = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}".encode()
    header += b' ' * (-(len(header) + 11) % 64) + b'\n'
    return b'\x93NUMPY\x01\x00' + struct.pack('<H', len(header)) + header + struct.pack(f'<{n}{code}', *values)


class Case:
    """A case as files: its graph, and operands that lie within bounds."""

    def __init__(self, folder, ins, nodes):
        self.graph, arrays = os.path.join(folder, 'graph.json'), os.path.join(folder, 'in.npz')
        bounded = [x for x in ins if x['within'] and x['dtype'] != 'bfloat16']
        with zipfile.ZipFile(arrays, 'w') as f:
            for x in bounded:
                f.writestr(x['name'] + '.npy', array(x['dtype'], tuple(x['shape']), x['within']))
        self.more = ['--inputs', arrays, '--seed', '1'] if bounded else []
        ins = [{k: v for k, v in x.items() if k != 'within'} for x in ins]
        with open(self.graph, 'w') as f:
            json.dump(dict(version=1, name='case', inputs=ins, nodes=nodes, outputs=['out']), f)

    def time(self, binary, *how):
        """Returns the least time of a run, in ns, and the number of runs; None where the binary refuses the case."""
        done = subprocess.run([binary, 'bench', self.graph, '--threads', '1', '--json', *how, *self.more],
                              capture_output=True, text=True, env={**os.environ, 'GRAPHRUN_JIT': 'off'})
        if done.returncode:
            return None
        told = json.loads(done.stdout)
        return told['min_ns'], told['runs']


def measure(old, new, case, rounds, span):
    """Returns the least times of both; None where one of them refuses the case."""
    first = case.time(new, '--for', f'{span}ms')
    if first is None:
        return None
    runs, best = ['--runs', str(max(3, first[1]))], {old: math.inf, new: math.inf}
    for k in range(rounds):
        for binary in [old, new] if k % 2 == 0 else [new, old]:
            t = case.time(binary, *runs)
            if t is None:
                return None
            best[binary] = min(best[binary], t[0])
    return best[old], best[new]


def show(times, above):
    ratios = {k: b / a for k, (a, b) in times.items()}
    by_op = collections.defaultdict(list)
    for k, r in sorted(ratios.items(), key=lambda x: -x[1]):
        op, rest = k.split('/', 1)
        if r > above:
            by_op[op].append(f'{rest} {r:.2f} ({times[k][1] / 1000:.3g} us)')
    for op, found in by_op.items():
        print(f'{op}:', ', '.join(found))
    mean = math.exp(sum(map(math.log, ratios.values())) / max(1, len(ratios)))
    print(f'{sum(map(len, by_op.values()))} of {len(ratios)} cases above {above}; the geometric mean is {mean:.3f}')


def joined(paths):
    """The least of several measurements."""
    times = {}
    for p in paths:
        for k, (a, b) in json.load(open(p)).items():
            x, y = times.get(k, (math.inf, math.inf))
            times[k] = min(a, x), min(b, y)
    return times


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument('binaries', nargs='*', metavar='OLD NEW')
    p.add_argument('--out', help='write the times to this file: of each case old and new, in ns')
    p.add_argument('--match', default='', help='cases whose names have this regular expression only')
    p.add_argument('--part', default='1/1', help='such as 2/5, the second of five parts')
    p.add_argument('--again', nargs='*', help='those only that were above --above in these files')
    p.add_argument('--above', type=float, default=1.05, help='what counts as slower')
    p.add_argument('--rounds', type=int, default=3, help='how often both are measured')
    p.add_argument('--ms', type=int, default=5, help='how long each time')
    p.add_argument('--show', nargs='+', help='show the least times of these files')
    a = p.parse_args()
    if a.show:
        return show(joined(a.show), a.above)
    old, new = map(os.path.abspath, a.binaries)
    names = {k: c for k, c in all_cases(old, new).items() if re.search(a.match, k)}
    if a.again:
        before = joined(a.again)
        names = {k: c for k, c in names.items() if k in before and before[k][1] / before[k][0] > a.above}
    part, parts = map(int, a.part.split('/'))
    times = {}
    with tempfile.TemporaryDirectory() as folder:
        for k in list(names)[part - 1::parts]:
            t = measure(old, new, Case(folder, *names[k]), a.rounds, a.ms)
            if t:
                times[k] = t
                print(f'{k:40} {t[0] / 1000:10.2f} {t[1] / 1000:10.2f} us {t[1] / t[0]:.3f}', flush=True)
            if a.out:
                json.dump(times, open(a.out, 'w'))
    show(times, a.above)


if __name__ == '__main__':
    main()
