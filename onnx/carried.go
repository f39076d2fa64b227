package onnx

import (
	"errors"
	"fmt"
	"slices"

	pb "github.com/graphrun/graphrun/internal/onnxpb"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// loopBody converts the body of a loop that becomes a node. It also returns the carried values, with each
// sequence replaced by two tensors, and the sequences by the index of their first tensor.
func (n *node) loopBody(p *pb.GraphProto, carried []*val) (*section, []*val, map[int]*packed) {
	carried = slices.Clone(carried)
	for i, x := range carried {
		if x != nil && x.kind == isSequence {
			carried[i] = n.packedOf(x, declaredRank(p.Input[2+i])).val()
		}
	}
	for count := n.count; ; n.count = count {
		start := []*val{known(tensor.Zeros(tensor.Int64)), known(tensor.Zeros(tensor.Bool))}
		body, err := n.trySubgraph(p, append(start, carried...), func(i int) bool { return i >= 2 })
		if err == nil {
			tensors, sequences := asTensors(carried)
			return body, tensors, sequences
		}
		var first *memberRank
		i := -1
		if errors.As(err, &first) {
			i = slices.IndexFunc(carried, func(x *val) bool { return x != nil && x.packed != nil && x.packed == first.of.outer })
		}
		switch {
		case i < 0:
			n.failf("%w", err)
		case carried[i].packed.outer != nil:
			// The enclosing loop carries the same sequence.
			panic(failure{&memberRank{carried[i].packed, first.rank, first.dtype}})
		}
		carried[i] = (&packed{dtype: first.dtype, rank: first.rank, data: known(tensor.Zeros(first.dtype, 0)),
			shapes: known(tensor.Zeros(tensor.Int64, 0, first.rank))}).val()
	}
}

// declaredRank returns the declared rank of a sequence's members, or -1.
func declaredRank(v *pb.ValueInfoProto) int {
	if s := v.GetType().GetSequenceType().GetElemType().GetTensorType().GetShape(); s != nil {
		return len(s.Dim)
	}
	return -1
}

// asTensors replaces each sequence by its two tensors. It also returns the sequences by the index of their first
// tensor.
func asTensors(list []*val) (out []*val, sequences map[int]*packed) {
	sequences = map[int]*packed{}
	for _, x := range list {
		if x != nil && x.packed != nil {
			sequences[len(out)] = x.packed
			out = append(out, x.packed.data, x.packed.shapes)
			continue
		}
		out = append(out, x)
	}
	return out, sequences
}

// asSequences is the inverse of asTensors.
func asSequences(list []*val, sequences map[int]*packed) (out []*val) {
	for i := 0; i < len(list); i++ {
		p := sequences[i]
		if p == nil {
			out = append(out, list[i])
			continue
		}
		i++
		out = append(out, (&packed{dtype: p.dtype, rank: p.rank, data: list[i-1],
			shapes: list[i].sized(tensor.Int64, -1, max(p.rank, 0))}).val())
	}
	return out
}

// enterSequence adds the inputs of a body for a sequence.
func (im *importer) enterSequence(name string, n *node, p *packed) (*val, error) {
	data, err := im.enter(name+".data", n, p.data, true)
	if err != nil {
		return nil, err
	}
	shapes, err := im.entering(name+".shapes", p.shapes, []sym.Int{im.unknown(0), sym.Of(max(p.rank, 0))})
	if err != nil {
		return nil, err
	}
	inner := &packed{dtype: p.dtype, rank: p.rank, data: data, shapes: shapes}
	if p.rank < 0 {
		inner.outer = p
	}
	return inner.val(), nil
}

// leaveSequences replaces each result of a body that is a sequence by two tensors, as for the carried inputs.
func (n *node) leaveSequences(b *section, in []*val) (err error) {
	defer caught(&err)
	for i, x := range in[2:] {
		at := 1 + i
		switch {
		case at >= len(b.out) || (x == nil || x.packed == nil) && b.out[at].kind != isSequence:
			continue
		case x == nil || x.packed == nil || b.out[at].kind != isSequence:
			return fmt.Errorf("carried value %d is a sequence in one iteration and none in another", i)
		}
		p := n.packedOf(b.out[at], x.packed.rank)
		switch {
		case x.packed.rank < 0 && p.rank >= 0:
			return &memberRank{&packed{outer: x.packed}, p.rank, p.dtype}
		case p.rank >= 0 && p.rank != x.packed.rank:
			return fmt.Errorf("a sequence has members of %d dimensions in one iteration and of %d in another", x.packed.rank,
				p.rank)
		}
		b.out[at] = p.val()
	}
	b.out, _ = asTensors(b.out)
	return nil
}

// sequencesOf replaces each result of branches that is a sequence by two tensors. It returns the sequences by the index
// of their first tensor.
func (n *node) sequencesOf(a, b *branch) (sequences map[int]*packed) {
	both := []*branch{a, b}
	ranks := make([]int, max(len(a.out), len(b.out)))
	for i := range ranks {
		ranks[i] = -1
		for _, x := range both {
			if x.err != nil || i >= len(x.out) || x.out[i] == nil || x.out[i].kind != isSequence {
				continue
			}
			if p := x.out[i].packed; p != nil {
				ranks[i] = max(ranks[i], p.rank)
			} else if list := x.out[i].list; len(list) > 0 {
				ranks[i] = (&node{importer: x.im}).rank(list[0])
			}
		}
	}
	for _, x := range both {
		x.try(n, func() error {
			inner := &node{importer: x.im, scope: n.scope, frame: n.frame, proto: n.proto}
			for i, y := range x.out {
				if y == nil || y.kind != isSequence {
					continue
				}
				p := inner.packedOf(y, ranks[i])
				if p.rank < 0 && ranks[i] >= 0 {
					p = &packed{dtype: p.dtype, rank: ranks[i], data: p.data, shapes: known(tensor.Zeros(tensor.Int64, 0, ranks[i]))}
				}
				x.out[i] = p.val()
			}
			return nil
		})
		if x.err == nil {
			x.out, sequences = asTensors(x.out)
		}
	}
	return sequences
}
