package catalogue

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/tensor"
)

// dtypeGroups are groups of dtypes, with their names in listings. Most ops support a group as a whole. As in PyTorch,
// few ops support the dtypes of uint, but most integer ops support uint8, so it belongs to int.
var dtypeGroups = []struct {
	name    string
	members []tensor.DType
}{
	{"bool", []tensor.DType{tensor.Bool}},
	{"int", []tensor.DType{tensor.Uint8, tensor.Int8, tensor.Int16, tensor.Int32, tensor.Int64}},
	{"uint", []tensor.DType{tensor.Uint16, tensor.Uint32, tensor.Uint64}},
	{"half", []tensor.DType{tensor.Float16, tensor.BFloat16}},
	{"float", []tensor.DType{tensor.Float32, tensor.Float64}},
	{"complex", []tensor.DType{tensor.Complex64, tensor.Complex128}},
}

// dtypeSet is a set of dtypes.
type dtypeSet map[tensor.DType]bool

// String lists the members: a complete group by its name, other dtypes by their names.
func (s dtypeSet) String() string {
	if len(s) == len(tensor.DTypes()) {
		return "all"
	}
	var names []string
	for _, g := range dtypeGroups {
		isComplete := true
		for _, d := range g.members {
			isComplete = isComplete && s[d]
		}
		if isComplete {
			names = append(names, g.name)
			continue
		}
		for _, d := range g.members {
			if s[d] {
				names = append(names, d.String())
			}
		}
	}
	if names == nil {
		return "-"
	}
	return strings.Join(names, ",")
}

// dtypesNamed returns the members of the group called name, or the single dtype called name. It returns nil for an
// unknown name.
func dtypesNamed(name string) []tensor.DType {
	for _, g := range dtypeGroups {
		if g.name == name {
			return g.members
		}
	}
	if d, err := tensor.ParseDType(name); err == nil {
		return []tensor.DType{d}
	}
	return nil
}

// dtypeNames lists the names of groups and dtypes.
func dtypeNames() []string {
	var names []string
	for _, g := range dtypeGroups {
		if len(g.members) > 1 {
			names = append(names, g.name)
		}
	}
	for _, d := range tensor.DTypes() {
		names = append(names, d.String())
	}
	return names
}

// hasAll reports whether the set has all of the dtypes.
func (s dtypeSet) hasAll(all []tensor.DType) bool {
	for _, d := range all {
		if !s[d] {
			return false
		}
	}
	return true
}

// names lists the dtypes of the set in the order of [tensor.DTypes].
func (s dtypeSet) names() []string {
	names := []string{}
	for _, d := range tensor.DTypes() {
		if s[d] {
			names = append(names, d.String())
		}
	}
	return names
}

// dtypes has the dtypes that an op supports. An op supports a dtype if inference accepts an example of the op with this
// dtype.
type dtypes struct {
	operands map[int]dtypeSet // the dtypes of each operand, by index
	attr     dtypeSet         // the values of the attribute dtype; nil if the op has no such attribute
}

// dtypesOf determines the dtypes that an op supports. It takes each dtype D that an example uses, replaces D in all
// operands by every dtype in turn, and records those that inference accepts. For example, all operands of float32
// become int64, and operands of bool stay the same.
func dtypesOf(op *graph.Op) dtypes {
	supported := dtypes{operands: map[int]dtypeSet{}}
	for _, ex := range op.Examples {
		for _, exampleDType := range exampleDTypes(ex) {
			for _, d := range tensor.DTypes() {
				if accepts(op, ex, exampleDType, d) {
					supported.add(ex, exampleDType, d)
				}
			}
		}
	}
	for _, f := range op.Schema.Fields {
		if f.Name == "dtype" && f.Type == "dtype" {
			supported.attr = dtypesOfAttr(op)
		}
	}
	return supported
}

func (s *dtypes) add(ex graph.Example, from, d tensor.DType) {
	for i, m := range ex.In {
		if m.DType != from {
			continue
		}
		if s.operands[i] == nil {
			s.operands[i] = dtypeSet{}
		}
		s.operands[i][d] = true
	}
}

// exampleDTypes returns the distinct dtypes of an example's operands.
func exampleDTypes(ex graph.Example) []tensor.DType {
	var list []tensor.DType
	for _, m := range ex.In {
		if m.DType != tensor.Invalid && !slices.Contains(list, m.DType) {
			list = append(list, m.DType)
		}
	}
	return list
}

// accepts reports whether inference accepts an example after one dtype is replaced by another. If from is Invalid, no
// dtype is replaced.
func accepts(o *graph.Op, ex graph.Example, from, to tensor.DType) bool {
	c, err := exampleCall(o, ex, from, to)
	if err == nil {
		_, err = o.Infer(c)
	}
	return err == nil
}

func exampleCall(o *graph.Op, ex graph.Example, from, to tensor.DType) (*graph.Call, error) {
	c := &graph.Call{}
	for i, m := range ex.In {
		switch m.DType {
		case tensor.Invalid:
			c.In = append(c.In, graph.Arg{})
			continue
		case from:
			m = m.WithDType(to)
		}
		c.In = append(c.In, graph.Arg{Kind: graph.TensorArg, Value: &graph.Value{Name: fmt.Sprint("x", i), Meta: m}})
	}
	var err error
	c.Attrs, err = o.Schema.Decode(ex.Attrs, nil)
	return c, err
}

// dtypesOfAttr returns the values that an op supports for the attribute dtype.
func dtypesOfAttr(o *graph.Op) dtypeSet {
	set := dtypeSet{}
	for _, ex := range o.Examples {
		for _, d := range tensor.DTypes() {
			example := graph.Example{In: ex.In, Attrs: maps.Clone(ex.Attrs)}
			if example.Attrs == nil {
				example.Attrs = graph.Attrs{}
			}
			example.Attrs["dtype"] = d
			if accepts(o, example, tensor.Invalid, d) {
				set[d] = true
			}
		}
	}
	return set
}

// mostGeneral returns the dtypes that listings show for an op: the dtypes of the operand with the most dtypes. For an
// op without operands, these are the values of the attribute dtype.
func (s dtypes) mostGeneral() dtypeSet {
	best := s.attr
	if len(s.operands) > 0 {
		best = nil
	}
	for _, i := range slices.Sorted(maps.Keys(s.operands)) {
		if len(s.operands[i]) > len(best) {
			best = s.operands[i]
		}
	}
	return best
}

// operand returns the dtypes of operand i as text, or "" if no example has the operand.
func (s dtypes) operand(i int) string {
	if s.operands[i] == nil {
		return ""
	}
	return s.operands[i].String()
}
