package onnx

import (
	"testing"

	"github.com/stretchr/testify/require"

	pb "github.com/graphrun/graphrun/internal/onnxpb"
)

// TestRejectedCalls checks that calls that an operator does not support are rejected with the node and the reason.
func TestRejectedCalls(t *testing.T) {
	heads := attrInt("num_heads", 2)
	for _, c := range []struct {
		op     string
		shapes [][]any // the shapes of float operands a, b ...; nil for an omitted operand
		want   string
		attrs  []*pb.AttributeProto
	}{
		{"Attention", [][]any{{1, 3, 4}, {4, 12}}, "attribute do_rotary is not supported",
			[]*pb.AttributeProto{heads, attrInt("do_rotary", 1)}},
		{"Attention", [][]any{{1, 3, 4}, {4, 12}}, "past_present_share_buffer",
			[]*pb.AttributeProto{heads, attrInt("past_present_share_buffer", 1)}},
		{"Attention", [][]any{{1, 3, 4}, {4, 12}}, "qkv_hidden_sizes has 2 numbers, want 3",
			[]*pb.AttributeProto{heads, attrInts("qkv_hidden_sizes", 4, 8)}},
		{"Attention", [][]any{{1, 3, 4}, {4, 12}}, "the sum of qkv_hidden_sizes is 10, want 12",
			[]*pb.AttributeProto{heads, attrInts("qkv_hidden_sizes", 4, 4, 2)}},
		{"Attention", [][]any{{3, 4}, {4, 12}}, "the product of operands 0 and 1 has 2 dimensions, want 3",
			[]*pb.AttributeProto{heads}},
		{"Attention", [][]any{{1, 3, 4}, {4, 12}, nil, {1, 1, 3, 3}}, "a mask of shape [1, 1, 3, 3] is not supported",
			[]*pb.AttributeProto{heads}},
		{"Attention", [][]any{{2, 3, 4}, {4, 12}, nil, {8}}, "a mask of 8 numbers for a batch of 2 is not supported",
			[]*pb.AttributeProto{heads}},
		{"Attention", [][]any{{1, 3, 5}, {5, 15}}, "5 elements cannot form 2 heads", []*pb.AttributeProto{heads}},
		{"MultiHeadAttention", [][]any{{1, 3, 4}, nil, nil, nil, nil, nil, nil, nil, {1}},
			"the numbers of dimensions of query, key and value are not supported", []*pb.AttributeProto{heads}},
		{"MultiHeadAttention",
			[][]any{{1, 3, 4}, {1, 3, 4}, {1, 3, 4}, nil, nil, nil, {1, 2, 2, 2}, {1, 2, 2, 2}, nil, {1, 1, 5}},
			"cache_indirection (operand 9) needs past_sequence_length (operand 8)", []*pb.AttributeProto{heads}},
		{"QMoE", [][]any{{1, 4}, {1, 2}, {2, 4, 4}, {2, 4}, nil, {2, 4, 4}, {2, 4}},
			"operand 2 is float32 of 3 dimensions, want uint8 of 3", nil},
		{"QMoE", [][]any{{1, 4}, {1, 2}}, "attribute use_sparse_mixer is not supported",
			[]*pb.AttributeProto{attrInt("use_sparse_mixer", 1)}},
		{"MultiHeadAttention", [][]any{{1, 3, 4}, {1, 3, 4}}, "the numbers of dimensions of query, key and value",
			[]*pb.AttributeProto{heads}},
		{"RotaryEmbedding", [][]any{{1, 2, 3, 4}, {1}, {8, 2}, {8, 2}}, "attribute is_packed_batching is not supported",
			[]*pb.AttributeProto{attrInt("is_packed_batching", 1)}},
		{"RotaryEmbedding", [][]any{{1, 2, 3, 4}, {1}, {8, 2}, {8, 2}}, "scale 2 is not supported",
			[]*pb.AttributeProto{attrFloat("scale", 2)}},
		{"FusedConv", [][]any{{1, 1, 4, 4}, {1, 1, 2, 2}}, `activation "Mish" is not supported`,
			[]*pb.AttributeProto{attrText("activation", "Mish")}},
		{"GroupNorm", [][]any{{1, 4, 4, 6}, {6}, {6}}, "6 channels cannot form 4 groups",
			[]*pb.AttributeProto{attrInt("groups", 4)}},
		{"GroupNorm", [][]any{{1, 4, 6}, {6}, {6}}, "operand 0 has 3 dimensions, want 4",
			[]*pb.AttributeProto{attrInt("groups", 3)}},
		{"EmbedLayerNormalization", [][]any{{2, 3}, {2, 3}, {5, 4}, {5, 4}, nil, {4}, {4}}, "must be used together", nil},
		{"MatMulNBits", [][]any{{2, 16}, {3, 1, 8}, {3, 1}}, "elements of 3 bits are not supported",
			[]*pb.AttributeProto{attrInt("bits", 3)}},
		{"MatMulNBits", [][]any{{2, 16}, {3, 1, 8}, {3, 1}}, "a matrix of shape [3, 0] is not supported",
			[]*pb.AttributeProto{attrInt("N", 3)}},
		{"MatMulNBits", [][]any{{2, 16}, {3, 1, 8}, {3, 1}}, "block_size 0 is not supported",
			[]*pb.AttributeProto{attrInt("N", 3), attrInt("K", 16)}},
		{"MatMulNBits", [][]any{{2, 16}, {3, 1, 8}, {3, 1}}, "elements of 4 bits in float32 are not supported",
			[]*pb.AttributeProto{attrInt("N", 3), attrInt("K", 16), attrInt("block_size", 16)}},
		{"MatMulNBits", [][]any{{2, 15}, {3, 1, 8}, {3, 1}}, "operand 0 has 15 columns, want K = 16",
			[]*pb.AttributeProto{attrInt("N", 3), attrInt("K", 16), attrInt("block_size", 16)}},
		{"MatMulNBits", [][]any{{2, 16}, {3, 1, 8}, {3, 1}, nil, {16}}, "g_idx (operand 4) is not supported", nil},
		{"GroupQueryAttention", [][]any{{1, 1, 48}, nil, nil, nil, nil, {1}, {1}, nil, nil, nil, nil, nil, {1}},
			"a quantized cache (operands 12 and 13) is not supported", nil},
		{"GroupQueryAttention", [][]any{{1, 1, 48}}, "attribute sliding_window_cache is not supported",
			[]*pb.AttributeProto{attrInt("sliding_window_cache", 1)}},
		{"GroupQueryAttention", [][]any{{1, 1, 48}}, "3 dimensions with 3 heads of queries and 2 of keys",
			[]*pb.AttributeProto{attrInt("num_heads", 3), attrInt("kv_num_heads", 2)}},
		{"GroupQueryAttention", [][]any{{1, 1, 48}, nil, nil, nil, nil, {1}, {2}},
			"total_sequence_length (operand 6) has 2 elements, want one",
			[]*pb.AttributeProto{attrInt("num_heads", 1), attrInt("kv_num_heads", 1)}},
		{"GatherBlockQuantized", [][]any{{4, 16}, {2}, {4, 1}}, "gather_axis must differ from quantize_axis",
			[]*pb.AttributeProto{attrInt("gather_axis", 1)}},
		{"QLinearConcat", [][]any{{}, {}, {2}, {}}, "4 operands are not parts with scale and zero point",
			[]*pb.AttributeProto{attrInt("axis", 0)}},
	} {
		n := node1(c.op, nil, names("y"), c.attrs...)
		n.Domain = "com.microsoft"
		checkRejected(t, n, c.shapes, c.want)
	}
	rule := attrText("update_rule", "other")
	q, kv := attrInt("q_num_heads", 1), attrInt("kv_num_heads", 1)
	linear := [][]any{{1, 2, 4}, {1, 2, 4}, {1, 2, 4}}
	checkRejected(t, node1("TopK", nil, names("y", "z")), [][]any{{4}, {1}}, "holds float32, want integers")
	checkRejected(t, node1("RotaryEmbedding", nil, names("y")), [][]any{{2, 1, 3, 8}, {2, 3, 1}, {2, 3, 1}}, "1 angles for 8")
	checkRejected(t, node1("Compress", nil, names("y"), attrInt("axis", 0)), [][]any{{}, {1}}, "has 0 dimensions")
	checkRejected(t, node1("Squeeze", nil, names("y"), attrInts("axes", 0)), [][]any{{}}, "has no dimensions")
	checkRejected(t, node1("LinearAttention", nil, names("y"), q, kv, rule), linear, `update_rule "other"`)
	checkRejected(t, node1("LinearAttention", nil, names("y"), q, kv), linear, "operands 4 (decay) and 5 (beta)")
	checkRejected(t, node1("LinearAttention", nil, names("y"), q), linear, "1 heads of queries cannot share 0 heads")
	checkRejected(t, node1("LinearAttention", nil, names("y"), q, kv, attrText("update_rule", "gated")),
		[][]any{{1, 2, 4}, {1, 2, 4}, {1, 2, 4}, nil, {2, 4}}, "a value with 2 dimensions cannot be split into heads, want 3")
	checkRejected(t, node1("Split", nil, names("y", "z")), [][]any{{}}, "has 0 dimensions")
	checkRejected(t, node1("TensorScatter", nil, names("y"), attrText("mode", "mirror")),
		[][]any{{1, 4, 2}, {1, 1, 2}}, `mode "mirror" is not supported`)
	checkRejected(t, node1("CausalConvWithState", nil, names("y"), attrText("activation", "relu")),
		[][]any{{1, 2, 4}, {2, 1, 3}}, `activation "relu" is not supported`)
	checkRejected(t, node1("BitCast", nil, names("y"), attrInt("to", int64(pb.Int64))), [][]any{{2}},
		"elements of float32 have 4 bytes, elements of int64 have 8")
	checkRejected(t, node1("RMSNormalization", nil, names("y"), attrInt("stash_type", int64(pb.Double))),
		[][]any{{2, 4}, {4}}, "stash_type float64 is not supported")
	skip := node1("SkipSimplifiedLayerNormalization", nil, names("y", "mean"))
	skip.Domain = "com.microsoft"
	checkRejected(t, skip, [][]any{{1, 2, 4}, {1, 2, 4}, {4}}, `output 1 ("mean") is not supported`)
}

// checkRejected converts a node with float operands. The error must name the node and contain the text want.
func checkRejected(t *testing.T, n *pb.NodeProto, shapes [][]any, want string) {
	t.Helper()
	p := &pb.GraphProto{Node: []*pb.NodeProto{n}, Output: infos(info("y", tFloat))}
	for i, shape := range shapes {
		name := ""
		if shape != nil {
			name = string(rune('a' + i))
			p.Input = append(p.Input, info(name, tFloat, shape...))
		}
		n.Input = append(n.Input, name)
	}
	m := model(28, p)
	m.OpsetImport = append(m.OpsetImport, &pb.OperatorSetIDProto{Domain: "com.microsoft", Version: 1},
		&pb.OperatorSetIDProto{Domain: mlDomain, Version: 5})
	_, err := toGraph(m, Options{})
	require.ErrorContains(t, err, `node "y" (`+n.OpType+`): `, want)
	require.ErrorContains(t, err, want)
}
