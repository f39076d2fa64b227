#!/usr/bin/env python3
"""Compares the speed of the portable path between two versions of graphrun, case by case.

    git worktree add ../first 951397a
    python3 scripts/portable.py ../first . --out first.json
    python3 scripts/portable.py ../first . --again first.json --above 1.04 --rounds 8 --out second.json
    python3 scripts/portable.py --show first.json second.json
    python3 scripts/portable.py ../first . --again second.json --above 1.05 --layouts 3 --out third.json
    python3 scripts/portable.py --show third.json fourth.json --each
    python3 scripts/portable.py ../first . --table

The arguments are two checkouts; the first is the reference, for example the first version (commit 951397a). The cases
are all element-wise ops of the reference, reductions, norms, scans and copies, in those of ten dtypes that both
versions support, with 4,096 and 262,144 elements. A graph with one op runs with one worker, GRAPHRUN_JIT=off, and
preallocated outputs, alternately in both versions. The result is the minimum over all rounds of the lower quartile of a
run's processor time (scripts/portable).

The machine must be idle. Measure the cases that seem slower again: with --apart in separate processes, because the
addresses of memory change times by some percent, and with --layouts in several link orders of both versions, because
the addresses of loops do, too. Then the minimum counts, that is, the best link order of each version: the link order is
random for both versions. The minimum measures the source, while a mean or median also contains disturbances by the
machine. A case is slower if it is above the limit in two independent measurements: `--show A B --each`.
"""
import argparse
import collections
import json
import math
import os
import re
import subprocess
import tempfile

FLOATS = ['float32', 'float64', 'float16', 'bfloat16']
INTS = ['int8', 'uint8', 'int32', 'int64']
DTYPES = FLOATS + INTS + ['bool', 'complex64']
SIZES = {'s': [64, 64], 'l': [512, 512]}

# By op: a suffix of the name for each variant, with the number of operands and the attributes.
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
# Operands are from -1 to 1, integers from 0 to 9; these are exceptions, for the first operand and for the others.
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
    """Cases with mixed dtypes, broadcast operands and strided operands."""
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


def table_cases():
    """The operations in the table of docs/performance.md, with 65,536 elements."""
    rows, image, last = [256, 256], [4, 16, 32, 32], [16384, 1, 512, 16]
    cases = {}

    def one(name, op, *operands, **attrs):
        ins = [operand(n, *(x if isinstance(x, tuple) else (x, rows))) for n, x in zip('xyz', operands)]
        for x in ins[:op == 'sqrt']:
            x['within'] = (0, 1)
        for x in ins:
            x['within'] = (1, 9) if x['dtype'] == 'int32' else x['within']
        cases[name] = ins, [node(op, [x['name'] for x in ins], attrs)]
    f = 'float32'
    for op in ['add', 'div', 'lt']:
        one(f'{op}, float32', op, f, f)
    one('where, float32', 'where', 'bool', f, f)
    for op, d in [('sqrt', f), ('hardswish', f), ('exp', f), ('exp', 'float64'), ('tanh', f), ('sigmoid', f),
                  ('gelu', f), ('gelu', 'bfloat16')]:
        one(f'{op}, {d}', op, d)
    for op, d in [('add', 'bfloat16'), ('add', 'float16'), ('add', 'int32'), ('floor_divide', 'int32'),
                  ('mul', 'complex64'), ('div', 'complex64')]:
        one(f'{op}, {d}', op, d, d)
    one('add, (16,64,64) + (64,1), float32', 'add', (f, [16, 64, 64]), (f, [64, 1]))
    one('add, (4,16,32,32) channels-last + (16,1,1), float32', 'add', (f, image), (f, [16, 1, 1]))
    one('add, (4,16,32,32) channels-last + contiguous, float32', 'add', (f, image), (f, image))
    for ins, _ in list(cases.values())[-2:]:
        ins[0]['strides'] = last
    one('sum of rows, (256,256)', 'sum', f, dim=[1])
    one('amax of columns, (256,256)', 'amax', f, dim=[0])
    for op in ['argmax', 'cumsum', 'softmax']:
        one(f'{op} of rows, (256,256)', op, f, dim=1)
    one('layer_norm of rows, (256,256)', 'layer_norm', f, normalized_shape=[256])
    one('group_norm, 4 groups, (4,16,32,32)', 'group_norm', (f, image), num_groups=4)
    return cases


def all_cases(old, new):
    ops = {o['name']: o for o in json.loads(subprocess.check_output([new, 'ops', '--json']))['ops']}
    known = {o['name'] for o in json.loads(subprocess.check_output([old, 'ops', '--json']))['ops']}
    cases = {}
    pointwise(cases, [o for o in ops.values() if o['kind'] == 'follows' and o['name'] in known])
    for size, shape in SIZES.items():
        for family in [layouts, reductions, norms, copies]:
            family(cases, size, shape)
    return cases


# How the first version loads a graph; later versions use scripts/portable/load.go.
LOAD = '''package main

import (
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels"
)

func load(path string) (*graph.Graph, error) { return graph.LoadFile(path, kernels.Lookup, nil) }
'''


def build(folder, checkout, name, layouts):
    """Builds scripts/portable of this checkout inside another checkout, in several link orders, and its command."""
    here, there = os.path.join(os.path.dirname(os.path.abspath(__file__)), 'portable'), os.path.abspath(checkout)
    first = not os.path.exists(os.path.join(there, 'graphfile'))
    files = {f: os.path.join(here, f) for f in ['main.go', 'load.go']}
    if first:
        files['load.go'] = os.path.join(folder, 'load.go')
        with open(files['load.go'], 'w') as f:
            f.write(LOAD)
    overlay = os.path.join(folder, f'{name}.json')
    with open(overlay, 'w') as f:
        json.dump({'Replace': {os.path.join(there, 'scripts/portable', k): v for k, v in files.items()}}, f)
    wanted = {f'{name}{k}': [f'-ldflags=-randlayout={k}'] * (k > 0) + ['-overlay', overlay, './scripts/portable']
              for k in range(layouts)}
    for made, how in {**wanted, f'{name}_command': ['./cmd/graphrun']}.items():
        made = os.path.join(folder, made)
        if not os.path.exists(made):
            subprocess.run(['go', 'build', '-buildvcs=false', '-o', made] + how, cwd=there, check=True)


class Version:
    """A process that runs cases."""

    def __init__(self, binary, compiled=False):
        self.binary, self.process = binary, None
        self.env = {**os.environ, 'GRAPHRUN_JIT': 'on' if compiled else 'off'}

    def ask(self, **question):
        """Returns the processor time of a run in ns; None if the version rejects the case."""
        if not self.process:
            self.process = subprocess.Popen([self.binary], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                            stderr=subprocess.DEVNULL, env=self.env)
        self.process.stdin.write(json.dumps(question) + '\n')
        self.process.stdin.flush()
        told = json.loads(self.process.stdout.readline() or '{"error": "ended"}')
        if told['error'] == 'ended':
            self.end()
        return None if told['error'] else told['ns']

    def end(self):
        if self.process:
            self.process.kill()
            self.process.wait()
        self.process = None


def measure(versions, folder, case, rounds, span, apart):
    """Returns the minimum time of each version; None if one of them rejects the case."""
    ins, nodes = case
    path = os.path.join(folder, f'{abs(hash(json.dumps(case)))}.json')
    with open(path, 'w') as f:
        ins_only = [{k: v for k, v in x.items() if k != 'within'} for x in ins]
        json.dump(dict(version=1, name='case', inputs=ins_only, nodes=nodes, outputs=['out']), f)
    within = [x['within'] or ((0, 9) if x['dtype'] in INTS else (-1, 1)) for x in ins]
    best, order = [math.inf] * len(versions), range(len(versions))
    for k in range(rounds):
        for v in order if k % 2 == 0 else reversed(order):
            t = versions[v].ask(File=path, Ns=int(span * 1e6), Within=within)
            if t is None:
                return None
            best[v] = min(best[v], t)
            if apart:
                versions[v].end()
    return best


def table(versions, folder, rounds, span):
    """Prints a row of Markdown for each case: the new version in Go and compiled, and the old version."""
    print('| operation, 65,536 elements | portable, us | compiled, us | portable / compiled | first version, us | '
          'portable / first |\n|---|---|---|---|---|---|')
    for name, case in table_cases().items():
        old, new, compiled = measure(versions, folder, case, rounds, span, False)
        print(f'| {name} | {new / 1000:.3g} | {compiled / 1000:.3g} | {new / compiled:.1f} | {old / 1000:.3g} | '
              f'{new / old:.2f} |', flush=True)


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
    """The minimum of several measurements."""
    times = {}
    for p in paths:
        for k, (a, b) in json.load(open(p)).items():
            x, y = times.get(k, (math.inf, math.inf))
            times[k] = min(a, x), min(b, y)
    return times


def each(paths, above):
    """Prints the cases above the limit in all of several measurements, with their ratios."""
    files = [json.load(open(p)) for p in paths]
    slower = {k: [f[k][1] / f[k][0] for f in files] for k in files[0] if all(k in f for f in files)}
    found = {k: r for k, r in slower.items() if min(r) > above}
    for k, r in sorted(found.items(), key=lambda x: -min(x[1])):
        print(f'{k:40}', ' '.join(f'{x:.3f}' for x in r), f'{files[0][k][1] / 1000:.3g} us')
    print(f'{len(found)} of {len(slower)} cases above {above} in each of {len(files)}')


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument('checkouts', nargs='*', metavar='OLD NEW')
    p.add_argument('--out', help='write the times to this file: of each case old and new, in ns')
    p.add_argument('--match', default='', help='cases whose names have this regular expression only')
    p.add_argument('--part', default='1/1', help='such as 2/5, the second of five parts')
    p.add_argument('--again', nargs='*', help='those only that were above --above in these files')
    p.add_argument('--above', type=float, default=1.05, help='what counts as slower')
    p.add_argument('--rounds', type=int, default=3, help='how often both are measured')
    p.add_argument('--ms', type=float, default=3, help='how long each time')
    p.add_argument('--apart', action='store_true', help='each time in a process of its own')
    p.add_argument('--layouts', type=int, default=1, help='how many link orders of each version are measured')
    p.add_argument('--table', action='store_true', help='print the table of docs/performance.md')
    p.add_argument('--build', help='a folder for the binaries, which are built if they are not there')
    p.add_argument('--show', nargs='+', help='show the least times of these files')
    p.add_argument('--each', action='store_true', help='with --show: what is above in each of them instead')
    a = p.parse_args()
    if a.show and a.each:
        return each(a.show, a.above)
    if a.show:
        return show(joined(a.show), a.above)
    with tempfile.TemporaryDirectory() as folder:
        run(a, folder)


def run(a, folder):
    made = os.path.abspath(a.build or folder)
    os.makedirs(made, exist_ok=True)
    for checkout, name in zip(a.checkouts, ['old', 'new']):
        build(made, checkout, name, a.layouts)
    if a.table:
        three = [Version(os.path.join(made, x), compiled) for x, compiled in [('old0', 0), ('new0', 0), ('new0', 1)]]
        table(three, folder, a.rounds, a.ms)
        for v in three:
            v.end()
        return
    commands = [os.path.join(made, x + '_command') for x in ['old', 'new']]
    names = {k: c for k, c in all_cases(*commands).items() if re.search(a.match, k)}
    if a.again:
        before = joined(a.again)
        names = {k: c for k, c in names.items() if k in before and before[k][1] / before[k][0] > a.above}
    part, parts = map(int, a.part.split('/'))
    versions, times = [Version(os.path.join(made, f'{x}{k}')) for x in ['old', 'new'] for k in range(a.layouts)], {}
    for k in list(names)[part - 1::parts]:
        t = measure(versions, folder, names[k], a.rounds, a.ms, a.apart)
        if t:
            times[k] = t = min(t[:a.layouts]), min(t[a.layouts:])
            print(f'{k:40} {t[0] / 1000:10.2f} {t[1] / 1000:10.2f} us {t[1] / t[0]:.3f}', flush=True)
    for v in versions:
        v.end()
    if a.out:
        with open(a.out, 'w') as f:
            json.dump(times, f)
    show(times, a.above)


if __name__ == '__main__':
    main()
