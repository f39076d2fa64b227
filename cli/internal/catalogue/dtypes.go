package catalogue

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/sorted"
	"github.com/graphrun/graphrun/tensor"
)

// supportedDTypes has the dtypes that an op supports. An op supports a dtype if inference accepts an example of the op
// with this dtype.
type supportedDTypes struct {
	operands   map[int]dtypeSet // the dtypes of each operand, by index
	attrValues dtypeSet         // the values of the attribute dtype; nil if the op has no such attribute
}

// dtypesOf determines the dtypes that an op supports from the examples of the op. For each dtype a of an example and
// each dtype b, it replaces a by b in all operands of the example. If inference accepts these operands, the operands
// that had dtype a may have dtype b. For example, all float32 operands become int64 operands, and bool operands stay
// the same.
func dtypesOf(op *graph.Op) supportedDTypes {
	supported := supportedDTypes{operands: map[int]dtypeSet{}}
	for _, example := range op.Examples {
		for _, exampleDType := range exampleDTypes(example) {
			for _, dtype := range tensor.DTypes() {
				if accepts(op, example, exampleDType, dtype) {
					supported.add(example, exampleDType, dtype)
				}
			}
		}
	}
	for _, field := range op.Schema.Fields {
		if field.Name == "dtype" && field.Type == "dtype" {
			supported.attrValues = dtypesOfAttr(op)
		}
	}
	return supported
}

// exampleDTypes returns the distinct dtypes of an example's operands.
func exampleDTypes(example graph.Example) []tensor.DType {
	var list []tensor.DType
	for _, meta := range example.In {
		if meta.DType != tensor.Invalid && !slices.Contains(list, meta.DType) {
			list = append(list, meta.DType)
		}
	}
	return list
}

// accepts reports whether inference accepts an example in whose operands the dtype `to` replaces the dtype `from`. If
// `from` is Invalid, no dtype is replaced.
func accepts(op *graph.Op, example graph.Example, from, to tensor.DType) bool {
	call, err := exampleCall(op, example, from, to)
	if err == nil {
		_, err = op.Infer(call)
	}
	return err == nil
}

// exampleCall returns the call of an example in which the dtype `to` replaces the dtype `from`.
func exampleCall(op *graph.Op, example graph.Example, from, to tensor.DType) (*graph.Call, error) {
	call := &graph.Call{}
	for i, meta := range example.In {
		switch meta.DType {
		case tensor.Invalid: // an omitted operand
			call.In = append(call.In, graph.Arg{})
			continue
		case from:
			meta = meta.WithDType(to)
		}
		call.In = append(call.In, graph.Arg{Kind: graph.TensorArg, Value: &graph.Value{Name: fmt.Sprint("x", i), Meta: meta}})
	}
	var err error
	call.Attrs, err = op.Schema.Decode(example.Attrs, nil) // nil: no symbols
	return call, err
}

// add records that the operands of an example that have the dtype `from` may also have the given dtype.
func (supported *supportedDTypes) add(example graph.Example, from, dtype tensor.DType) {
	for i, meta := range example.In {
		if meta.DType != from {
			continue
		}
		if supported.operands[i] == nil {
			supported.operands[i] = dtypeSet{}
		}
		supported.operands[i][dtype] = true
	}
}

// dtypesOfAttr returns the values that an op supports for the attribute dtype.
func dtypesOfAttr(op *graph.Op) dtypeSet {
	set := dtypeSet{}
	for _, ex := range op.Examples {
		for _, dtype := range tensor.DTypes() {
			example := graph.Example{In: ex.In, Attrs: maps.Clone(ex.Attrs)}
			if example.Attrs == nil {
				example.Attrs = graph.Attrs{}
			}
			example.Attrs["dtype"] = dtype
			if accepts(op, example, tensor.Invalid, dtype) {
				set[dtype] = true
			}
		}
	}
	return set
}

// mostGeneral returns the dtypes that listings show for an op: the dtypes of the operand with the most dtypes. For an
// op without operands, these are the values of the attribute dtype.
func (supported supportedDTypes) mostGeneral() dtypeSet {
	if len(supported.operands) == 0 {
		return supported.attrValues
	}
	var largest dtypeSet
	operands := slices.Collect(maps.Keys(supported.operands))
	sorted.Ints(operands)
	for _, i := range operands {
		if len(supported.operands[i]) > len(largest) {
			largest = supported.operands[i]
		}
	}
	return largest
}

// operand returns the dtypes of operand i as text, or "" if no example has the operand.
func (supported supportedDTypes) operand(i int) string {
	if supported.operands[i] == nil {
		return ""
	}
	return supported.operands[i].String()
}

// dtypeGroups are groups of dtypes, with their names in listings. Most ops support either all dtypes of a group or
// none. The group int contains uint8, because most integer ops support uint8 but, as in PyTorch, not the dtypes of the
// group uint.
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

type dtypeSet map[tensor.DType]bool

// String lists the members: a complete group by its name, other dtypes by their names.
func (s dtypeSet) String() string {
	if len(s) == len(tensor.DTypes()) {
		return "all"
	}
	var names []string
	for _, group := range dtypeGroups {
		isComplete := true
		for _, dtype := range group.members {
			isComplete = isComplete && s[dtype]
		}
		if isComplete {
			names = append(names, group.name)
			continue
		}
		for _, dtype := range group.members {
			if s[dtype] {
				names = append(names, dtype.String())
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
	for _, group := range dtypeGroups {
		if group.name == name {
			return group.members
		}
	}
	if dtype, err := tensor.ParseDType(name); err == nil {
		return []tensor.DType{dtype}
	}
	return nil
}

// dtypeNames lists the names of groups and dtypes.
func dtypeNames() []string {
	var names []string
	for _, group := range dtypeGroups {
		if len(group.members) > 1 {
			names = append(names, group.name)
		}
	}
	for _, dtype := range tensor.DTypes() {
		names = append(names, dtype.String())
	}
	return names
}

// hasAll reports whether the set has all wanted dtypes.
func (s dtypeSet) hasAll(wanted []tensor.DType) bool {
	for _, dtype := range wanted {
		if !s[dtype] {
			return false
		}
	}
	return true
}

// names lists the dtypes of the set in the order of [tensor.DTypes].
func (s dtypeSet) names() []string {
	names := []string{}
	for _, dtype := range tensor.DTypes() {
		if s[dtype] {
			names = append(names, dtype.String())
		}
	}
	return names
}
