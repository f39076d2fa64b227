package convert

import (
	"fmt"

	"github.com/graphrun/graphrun/tensor"
)

// This file makes values of an enclosing graph available in the body of a loop or branch if a node of the body uses
// them. For example, if the body of a loop uses x of the main graph, the body gets an additional input outer.x, and the
// loop gets x as an additional operand. The importer of the body lists such operands in its field captured. Its field
// captures maps each used value of the enclosing graph to the value in the body.

// lookup returns the value with a name in the scope or its enclosing scopes. It returns nil if there is no such value.
func (s *scope) lookup(name string) *Value {
	var outerScope *scope
	for inner := s; inner != nil; inner = inner.inlineParent { // the scopes of this graph, from the innermost
		if found := inner.values[name]; found != nil {
			return found
		}
		outerScope = inner.outerGraphScope
	}
	if outerScope == nil {
		return nil
	}
	found := outerScope.lookup(name) // in the enclosing graph
	if found == nil {
		return nil
	}
	captured, err := s.importer.capture(found)
	if err != nil {
		panic(failure{fmt.Errorf("%q: %w", name, err)})
	}
	s.values[name] = captured
	return captured
}

// capture makes a value of the enclosing graph available in this graph. A constant is shared. A value that the
// enclosing graph computes becomes an input. A tensor computed from sizes keeps its elements, and becomes an input only
// if this graph needs the tensor. A sequence or map is captured member by member.
func (im *importer) capture(v *Value) (*Value, error) {
	if captured := im.captures[v]; captured != nil {
		return captured, nil
	}
	if v.kind == unavailableKind {
		return nil, &unavailableError{v}
	}
	inner := &Value{name: v.name, data: v.data, kind: v.kind, outline: v.outline, hasStrings: v.hasStrings}
	var err error
	switch {
	case v.rounded != tensor.Invalid: // see float32.go
		if inner, err = im.capture(v.unrounded()); err == nil {
			inner = inner.standingFor(v.rounded)
		}
	case v.packed != nil:
		inner.packed, err = im.capturePacked(v.packed)
	case v.kind == sequenceKind || v.kind == mapKind || v.kind == mapsKind:
		inner.memberDType, inner.labels = v.memberDType, v.labels
		inner.members, err = im.captureAll(v.members)
	case v.elements != nil: // computed from sizes
		inner.elements = v.elements
		inner.addToGraph = func() *Value { return im.addCapturedElements(v) }
	case v.data == nil && v.graphValue != nil: // not a constant
		if inner, err = im.addCaptured(v); err == nil {
			inner.hasStrings = v.hasStrings
		}
	}
	if err != nil {
		return nil, err
	}
	im.captures[v] = inner
	return inner, nil
}

// capturePacked captures the two tensors of a packed sequence.
func (im *importer) capturePacked(packed *packedSequence) (*packedSequence, error) {
	tensors, err := im.captureAll([]*Value{packed.data, packed.shapes})
	if err != nil {
		return nil, err
	}
	return &packedSequence{dtype: packed.dtype, rank: packed.rank, data: tensors[0], shapes: tensors[1],
		outer: packed.outer}, nil
}

// captureAll captures each value of a list.
func (im *importer) captureAll(list []*Value) (captured []*Value, err error) {
	for _, v := range list {
		inner, err := im.capture(v)
		if err != nil {
			return nil, err
		}
		captured = append(captured, inner)
	}
	return captured, nil
}

// addCaptured adds an input for a value of the enclosing graph, and records the value in captured.
func (im *importer) addCaptured(v *Value) (*Value, error) {
	input, err := im.addInput("outer."+v.graphValue.Name, v, im.outer.TrySymShape(v))
	if err == nil {
		im.captured = append(im.captured, v)
	}
	return input, err
}

// addCapturedElements is addCaptured for a tensor computed from sizes. It is called only if the graph needs the
// tensor.
func (im *importer) addCapturedElements(v *Value) *Value {
	meta := v.Meta()
	input, err := im.addCaptured((&Value{graphValue: im.outer.materialise(v)}).WithSizes(meta.DType, meta.Shape...))
	if err != nil {
		panic(failure{fmt.Errorf("%q: %w", v.name, err)})
	}
	return input
}
