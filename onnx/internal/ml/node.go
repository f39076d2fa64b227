package ml

import "github.com/graphrun/graphrun/onnx/internal/convert"

// The types of package convert, under short names.
type (
	node      = convert.Node
	value     = convert.Value
	converter = convert.Converter
)

// single returns the list of outputs of a node with a single output.
func single(x *value) []*value { return []*value{x} }
