package operators

import "github.com/graphrun/graphrun/onnx/internal/convert"

// The types of package convert, under short names.
type (
	node      = convert.Node
	value     = convert.Value
	converter = convert.Converter
)

// single returns the list of outputs of a node with a single output.
func single(x *value) []*value { return []*value{x} }

// inFloat32 is [convert.InFloat32]. The table has it for each operator that several ops compute.
func inFloat32(c converter) converter { return convert.InFloat32(c) }
