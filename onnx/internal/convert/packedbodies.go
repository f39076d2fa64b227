package convert

import (
	"errors"
	"fmt"
	"slices"

	pb "github.com/graphrun/graphrun/internal/onnxpb"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// This file passes packed sequences (packed.go) to and from nested graphs, whose inputs and results are tensors. A
// packed sequence is two tensors: data has the elements of all members, and shapes has a row for each member. In a list
// of inputs or results, each sequence is replaced by its two tensors. For example, the values (x, sequence, y) are
// passed as (x, data, shapes, y).

// firstCarried is the index of the first carried value among the inputs of a loop's body. Inputs 0 and 1 are the
// iteration and the condition.
const firstCarried = 2

// asTensors replaces each packed sequence in a list of values by its two tensors. The keys of sequences are the indices
// of the first tensors in out.
func asTensors(list []*Value) (out []*Value, sequences map[int]*packedSequence) {
	sequences = map[int]*packedSequence{}
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
func asSequences(list []*Value, sequences map[int]*packedSequence) (out []*Value) {
	for i := 0; i < len(list); i++ {
		packed := sequences[i]
		if packed == nil {
			out = append(out, list[i])
			continue
		}
		data, shapes := list[i], list[i+1].WithSizes(tensor.Int64, -1, max(packed.rank, 0))
		out = append(out, (&packedSequence{dtype: packed.dtype, rank: packed.rank, data: data, shapes: shapes}).toValue())
		i++ // the sequence is two values of the list
	}
	return out
}

// loopBody converts the body of a loop that becomes a node. It returns the body and the carried values with packed
// sequences. If the body inserts the first member into a sequence of unknown rank, the conversion fails with a
// [memberRankError]. loopBody then converts the body again, with an empty sequence of the member's rank and dtype.
func (n *Node) loopBody(proto *pb.GraphProto, carried []*Value) (*nestedGraph, []*Value) {
	carried = slices.Clone(carried)
	for i, x := range carried {
		if x != nil && x.kind == sequenceKind {
			carried[i] = n.packedOf(x, declaredRank(proto.Input[firstCarried+i])).toValue()
		}
	}
	for count := n.nodeCount; ; n.nodeCount = count {
		// Only the types of the iteration and the condition matter. The shapes of carried values may vary.
		start := []*Value{Constant(tensor.Zeros(tensor.Int64)), Constant(tensor.Zeros(tensor.Bool))}
		varies := func(i int) bool { return i >= firstCarried }
		body, err := n.tryConvertBody(asDeclared(proto), append(start, carried...), varies)
		if err == nil {
			return body, carried
		}
		var rankErr *memberRankError
		if !errors.As(err, &rankErr) {
			n.Failf("%w", err)
		}
		i := slices.IndexFunc(carried, func(x *Value) bool { return x != nil && x.packed == rankErr.sequence })
		if i < 0 {
			n.Failf("%w", err)
		}
		if outer := rankErr.sequence.outer; outer != nil {
			// The enclosing loop carries the same sequence, so its body must be converted again. The panic becomes the
			// error of the conversion of the enclosing body (Recover).
			panic(failure{&memberRankError{outer, rankErr.rank, rankErr.dtype}})
		}
		carried[i] = emptyPacked(rankErr.dtype, rankErr.rank).toValue()
	}
}

// declaredRank returns the declared rank of a sequence's members, or -1 if the rank is not declared.
func declaredRank(v *pb.ValueInfoProto) int {
	if v.Type == nil || v.Type.SequenceType == nil {
		return -1
	}
	member := pb.ValueInfoProto{Type: v.Type.SequenceType.ElemType}
	if s := member.Shape(); s != nil {
		return len(s.Dim)
	}
	return -1
}

// addSequence adds the two inputs of a body for a packed sequence p, which is an operand of node n.
func (im *importer) addSequence(name string, n *Node, p *packedSequence) (*Value, error) {
	const varies = true // iterations may add and remove members
	data, err := im.addOperandInput(name+".data", n, p.data, varies)
	if err != nil {
		return nil, err
	}
	shapes, err := im.addInput(name+".shapes", p.shapes, []sym.Int{im.symbols.NewUnknown(0), sym.Of(max(p.rank, 0))})
	if err != nil {
		return nil, err
	}
	inner := &packedSequence{dtype: p.dtype, rank: p.rank, data: data, shapes: shapes}
	if p.rank < 0 {
		inner.outer = p
	}
	return inner.toValue(), nil
}

// splitSequences replaces each sequence among the results of a loop's body by two tensors. operands are the body's
// inputs in the first iteration.
func (n *Node) splitSequences(nested *nestedGraph, operands []*Value) (err error) {
	defer Recover(&err)
	for i, x := range operands[firstCarried:] {
		index := 1 + i // in the results, which begin with the condition
		if index >= len(nested.out) {
			break
		}
		wasSequence, isSequence := x != nil && x.packed != nil, nested.out[index].kind == sequenceKind
		if !wasSequence && !isSequence {
			continue
		}
		if wasSequence != isSequence {
			return fmt.Errorf("carried value %d is a sequence in one iteration and not a sequence in another", i)
		}
		packed := n.packedOf(nested.out[index], x.packed.rank)
		switch {
		case x.packed.rank < 0 && packed.rank >= 0:
			return &memberRankError{x.packed, packed.rank, packed.dtype}
		case packed.rank >= 0 && packed.rank != x.packed.rank:
			return fmt.Errorf("a sequence has members of %d dimensions in one iteration and of %d dimensions in another",
				x.packed.rank, packed.rank)
		}
		nested.out[index] = packed.toValue()
	}
	nested.out, _ = asTensors(nested.out)
	return nil
}

// sequencesOf replaces each sequence among the results of two branches by two tensors. It returns the map of
// [asTensors]. A sequence that is empty in one branch gets the rank of the members in the other branch.
func (n *Node) sequencesOf(thenBranch, elseBranch *branch) (sequences map[int]*packedSequence) {
	ranks := memberRanks(thenBranch, elseBranch)
	for _, b := range []*branch{thenBranch, elseBranch} {
		b.convertPart(n, func() error {
			inner := &Node{importer: b.importer, scope: n.scope, frame: n.frame, proto: n.proto}
			for i, y := range b.out {
				if y == nil || y.kind != sequenceKind {
					continue
				}
				packed := inner.packedOf(y, ranks[i])
				if packed.rank < 0 && ranks[i] >= 0 {
					packed = &packedSequence{dtype: packed.dtype, rank: ranks[i], data: packed.data,
						shapes: Constant(tensor.Zeros(tensor.Int64, 0, ranks[i]))}
				}
				b.out[i] = packed.toValue()
			}
			return nil
		})
		if b.err == nil {
			b.out, sequences = asTensors(b.out)
		}
	}
	return sequences
}

// memberRanks returns a number for each result of two branches. If the result is a sequence of known rank in one of the
// branches, the number is the rank of the members. Otherwise it is -1.
func memberRanks(thenBranch, elseBranch *branch) []int {
	ranks := make([]int, max(len(thenBranch.out), len(elseBranch.out)))
	for i := range ranks {
		ranks[i] = -1
		for _, b := range []*branch{thenBranch, elseBranch} {
			if b.err != nil || i >= len(b.out) || b.out[i] == nil || b.out[i].kind != sequenceKind {
				continue
			}
			if packed := b.out[i].packed; packed != nil {
				ranks[i] = max(ranks[i], packed.rank)
			} else if list := b.out[i].members; len(list) > 0 {
				ranks[i] = (&Node{importer: b.importer}).Rank(list[0])
			}
		}
	}
	return ranks
}
