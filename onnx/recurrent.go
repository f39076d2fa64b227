package onnx

import (
	"github.com/graphrun/graphrun/graph"
	pb "github.com/graphrun/graphrun/internal/onnxpb"
)

// recurrent converts RNN, GRU and LSTM to ops with the same options.
func recurrent(op string, operands int) converter {
	return func(n *node) []*val {
		attrs := graph.Attrs{"direction": n.text("direction", "forward"), "clip": n.float("clip", 0),
			"layout": n.int("layout", 0)}
		if n.attrs["hidden_size"] != nil {
			attrs["hidden_size"] = n.int("hidden_size", 0)
		}
		if a := n.attr("activations", pb.AttributeProto_STRINGS); a != nil {
			names := make([]string, len(a.Strings))
			for i, s := range a.Strings {
				names[i] = string(s)
			}
			attrs["activations"] = names
		}
		for _, name := range []string{"activation_alpha", "activation_beta"} {
			if list, ok := n.floats(name); ok {
				attrs[name] = list
			}
		}
		for _, name := range []string{"linear_before_reset", "input_forget"} {
			if n.attrs[name] != nil {
				attrs[name] = n.int(name, 0)
			}
		}
		in := []any{n.x(0), n.x(1), n.x(2)}
		for i := 3; i < operands; i++ {
			in = append(in, n.opt(i))
		}
		out := n.ops(op, attrs, in...)
		for i, o := range out {
			o.ofRank(3)
			if i == 0 {
				o.ofRank(4)
			}
		}
		return out
	}
}
