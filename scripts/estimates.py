#!/usr/bin/env python3
"""Estimates the inner loops of generated code for arm64 by llvm-mca, for processors that are not at hand.

    GOARCH=arm64 make release RELEASE=graphrun-arm64
    python3 scripts/estimates.py --graphrun 'qemu-aarch64 -cpu max ./graphrun-arm64' --mca llvm-mca-19
    python3 scripts/estimates.py ... --target arm64-dotprod --only bytes
    python3 scripts/estimates.py ... --peer NAME=KERNEL.S       # the loop of another library's kernel

Prints tables in Markdown. Of a loop of elements, they have cycles per element. Of a register tile, they have
multiply-adds per cycle, and their share of the rate of independent multiply-adds in the same model. llvm-mca assumes
that all loads hit L1 and that branches are predicted. LLVM describes apple-m1 by the model of an older core (Cyclone).
"""
import argparse
import functools
import json
import os
import re
import shlex
import subprocess
import tempfile

CPUS = ['neoverse-n1', 'neoverse-v1', 'apple-m1']
# The multiply-adds of an instruction, by mnemonic and the element type of the sums. A vector of SVE has two or more
# times 128 bits, 256 in neoverse-v1.
MACS = {('fmla', '4s'): 4, ('fmla', '2d'): 2, ('sdot', '4s'): 16, ('sudot', '4s'): 16, ('usdot', '4s'): 16,
        ('udot', '4s'): 16, ('smmla', '4s'): 32, ('usmmla', '4s'): 32, ('smmla', 's'): 64}


def graph(inputs, op, attrs=None):
    names = ['x', 'y', 'z', 'w', 'u', 'v'][:len(inputs)]
    ins = [dict(name=n, dtype=d, shape=s) for n, (d, s) in zip(names, inputs)]
    return dict(version=1, name='case', inputs=ins, outputs=['out'],
                nodes=[dict(name='out', op=op, inputs=names, **({'attrs': attrs} if attrs else {}))])


def loops():
    """Graphs by name, whose code has one inner loop over elements."""
    big = [64, 4096]
    cases = {}
    for op in ['relu', 'exp', 'log', 'sqrt', 'tanh', 'sigmoid', 'silu', 'gelu', 'erf', 'sin', 'hardswish']:
        cases[f'{op}, float32'] = graph([('float32', big)], op)
    for op in ['add', 'mul', 'div', 'maximum', 'lt', 'pow']:
        cases[f'{op}, float32'] = graph([('float32', big)] * 2, op)
    for op, d in [('add', 'float64'), ('add', 'bfloat16'), ('add', 'float16'), ('add', 'int8'), ('mul', 'complex64')]:
        cases[f'{op}, {d}'] = graph([(d, big)] * 2, op)
    cases['exp, float64'] = graph([('float64', big)], 'exp')
    cases['where, float32'] = graph([('bool', big), ('float32', big), ('float32', big)], 'where')
    cases['float32 to float16'] = graph([('float32', big)], 'to', {'dtype': 'float16'})
    for op in ['sum', 'amax']:
        cases[f'{op} of rows, float32'] = graph([('float32', big)], op, {'dim': [1]})
    return cases


def tiles():
    """Graphs by name, whose code has register tiles."""
    def product(op, a, b):
        return graph([(a, [256, 512]), (b, [512, 256])], op)
    return {'product, float32': product('matmul', 'float32', 'float32'),
            'product, float64': product('matmul', 'float64', 'float64'),
            'product, bytes': product('matmul_bytes', 'uint8', 'int8'),
            'convolution 3x3, float32': graph([('float32', [1, 64, 56, 56]), ('float32', [64, 64, 3, 3])], 'conv2d',
                                              {'padding': [1, 1]}),
            'convolution 3x3, bytes': graph([('uint8', [1, 64, 56, 56]), ('int8', [64, 64, 3, 3]), ('int32', [64]),
                                             ('float32', [64]), ('uint8', []), ('uint8', [])], 'conv2d_bytes',
                                            {'padding': [1, 1]})}


def listings(a, case):
    with tempfile.NamedTemporaryFile('w', suffix='.json') as f:
        json.dump(case, f)
        f.flush()
        env = {**os.environ, **({'GRAPHRUN_TARGET': a.target} if a.target else {})}
        text = subprocess.run(shlex.split(a.graphrun) + ['plan', f.name, '--code', 'out'], env=env, text=True, check=True,
                              stdout=subprocess.PIPE).stdout
    return text.split('\nCode\n')[1:]


def inner_loops(text):
    """The innermost loops of assembly: lists of instructions between a label and a branch back to it."""
    labels, lines, found = {}, [], []
    for line in text.splitlines():
        line = re.split('//|#include|^ *# ', line)[0].strip()
        if m := re.fullmatch(r'\.?(\w+):', line):
            labels[m[1]] = len(lines)
        elif m := re.fullmatch(r'(?:b\.?\w\w|cbnz\s.*,)\s+\.?(\w+?)(?:(?<=\d)b)?', line, re.I):
            start = labels.get(m[1])
            if start is not None and not any(start <= x for x, _ in found):
                found.append((start, lines[start:] + [re.sub(r'\S+$', 'loop', line)]))
            lines.append('')
        else:
            lines.append(line)
    return [[x for x in body if x and not re.match(r'\.p2align|nop', x)] for _, body in found]


@functools.cache
def cycles(mca, cpu, body):
    """The cycles of an iteration."""
    text = 'loop:\n' + '\n'.join(body) + '\n'
    out = subprocess.run([mca, '-mtriple=aarch64', f'-mcpu={cpu}', '-mattr=+dotprod,+i8mm,+fullfp16,+fp16fml,+bf16,+sve',
                          '-iterations=200'], input=text, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    found = re.search(r'Total Cycles:\s+(\d+)', out.stdout)
    return int(found[1]) / 200 if found else None


def mac_instructions(body):
    """The multiply-add instructions of the kind that has most multiply-adds, as pairs of mnemonic and element type, and
    their multiply-adds."""
    found = [(m[1], m[2]) for x in body if (m := re.match(r'(\w+)\s+[vz]\d+\.(\w+)', x.lower()))]
    found = [x for x in found if x in MACS]
    kind = max(set(found), key=lambda x: found.count(x) * MACS[x], default=None)
    return [kind] * found.count(kind), found.count(kind) * MACS.get(kind, 0)


def peak(mca, cpu, kind):
    """Multiply-adds per cycle of independent instructions."""
    name, elem = kind
    source = {'4s': '16b', '2d': '2d', 's': 'b'}[elem] if name != 'fmla' else elem
    register = 'z' if elem == 's' else 'v'
    body = [f'{name} {register}{i}.{elem}, {register}30.{source}, {register}31.{source}' for i in range(24)]
    lane = {'fmla': f'31.{elem[-1]}[0]', 'sdot': '31.4b[0]', 'sudot': '31.4b[0]'}.get(name)
    if lane:
        body = [x.replace(f'31.{source}', lane) for x in body]
    took = cycles(mca, cpu, tuple(body))
    return took and 24 * MACS[kind] / took


def step(body):
    """The elements of an iteration: the constant that is subtracted from the counter before the branch."""
    found = [int(m[1]) for x in body if (m := re.match(r'subs\s+\w+, \w+, #(\d+)', x))]
    return found[-1] if found else 0


def loop_row(a, name, text):
    bodies = [b for part in text for b in inner_loops(part)[:1]]
    body = max(bodies, key=step)
    took = [cycles(a.mca, cpu, tuple(body)) for cpu in CPUS]
    return f'| {name} | ' + ' | '.join(f'{t / step(body):.2f}' if t else '' for t in took) + ' |'


def tile_row(a, name, bodies):
    # The tile with the most multiply-adds per instruction and, of those, the shortest loop: the unrolled k-loop.
    body = max(bodies, key=lambda b: (mac_instructions(b)[1] / len(b), -len(b)))
    kinds, macs = mac_instructions(body)
    row = f'| {name} | {len(kinds)} {kinds[0][0].upper()}, {len(body) - len(kinds)} others'
    for cpu in CPUS:
        took, best = cycles(a.mca, cpu, tuple(body)), peak(a.mca, cpu, kinds[0])
        row += f' | {macs / took:.1f}, {macs / took / best:.0%}' if took and best else ' | '
    return row + ' |'


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument('--graphrun', required=True, help='the command for arm64')
    p.add_argument('--mca', default='llvm-mca', help='llvm-mca of LLVM 17 or later')
    p.add_argument('--target', help='GRAPHRUN_TARGET')
    p.add_argument('--only', default='', help='cases whose names have this text')
    p.add_argument('--peer', action='append', default=[], metavar='NAME=FILE', help='a kernel of another library')
    a = p.parse_args()
    head = ' | '.join(CPUS) + ' |\n|---|' + '--:|' * len(CPUS)
    print(f'| loop, cycles per element | {head}')
    for name, case in loops().items():
        if a.only in name:
            print(loop_row(a, name, listings(a, case)), flush=True)
    print(f'\n| tile, multiply-adds per cycle and share of the peak | instructions of the loop | {head}--:|')
    for name, case in tiles().items():
        if a.only in name:
            print(tile_row(a, name, [b for part in listings(a, case) for b in inner_loops(part)]), flush=True)
    for name, path in (x.split('=', 1) for x in a.peer):
        with open(path) as f:
            print(tile_row(a, name, inner_loops(f.read())), flush=True)


if __name__ == '__main__':
    main()
