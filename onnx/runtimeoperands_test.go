package onnx

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/internal/files"
	pb "github.com/graphrun/graphrun/internal/onnxpb"
	"github.com/graphrun/graphrun/onnx/internal/modelfile"
	"github.com/graphrun/graphrun/tensor"
)

// TestVectorsOfRuntimeOperands makes each initializer of each case an input.
func TestVectorsOfRuntimeOperands(t *testing.T) {
	out, _ := os.Create("/tmp/sz-r3.txt")
	total := 0
	for _, v := range vectors(t) {
		var proto pb.ModelProto
		require.NoError(t, pb.Unmarshal(v.model, &proto), v.name)
		file, err := modelfile.Read(context.Background(), bytes.NewReader(v.model), len(v.model), files.FolderOf(nil, "", ""), nil)
		require.NoError(t, err)
		values := map[string]*tensor.Tensor{}
		types := map[string]int32{}
		var list []string
		for i, c := range proto.Graph.Initializer {
			if c.DataType == int32(pb.String) {
				continue
			}
			if x, err := file.Tensor(file.Proto.Graph.Initializer[i]); err == nil {
				if _, err := modelfile.DTypeOf(c.DataType); err == nil {
					values[c.Name], types[c.Name] = x, c.DataType
					list = append(list, c.Name)
				}
			}
		}
		for _, in := range proto.Graph.Input {
			if x := v.in[in.Name]; x != nil && !v.texts[in.Name] {
				values[in.Name], types[in.Name] = x, in.TensorType().ElemType
				list = append(list, in.Name)
			}
		}
		for _, name := range list {
			x := values[name]
			for _, mode := range []string{"constant", "fixed", "open", "compress"} {
				isInts := x.DType == tensor.Int64 && x.Rank() == 1
				if (mode == "open" || mode == "compress") && !isInts || mode == "constant" && v.in[name] == nil || mode == "fixed" && v.in[name] != nil {
					continue
				}
				total++
				g := *proto.Graph
				changed := proto
				changed.Graph = &g
				g.Initializer = slices.DeleteFunc(slices.Clone(g.Initializer), func(c *pb.TensorProto) bool { return c.Name == name })
				g.Input = slices.DeleteFunc(slices.Clone(g.Input), func(c *pb.ValueInfoProto) bool { return c.Name == name })
				w := v
				w.in = maps.Clone(v.in)
				given := name
				dims := make([]any, x.Rank())
				for d, s := range x.Shape {
					if dims[d] = s; mode == "open" {
						dims[d] = fmt.Sprint("S", d)
					}
				}
				switch mode {
				case "constant":
					g.Initializer = append(g.Initializer, protoOf(t, name, x))
					delete(w.in, name)
				case "compress":
					given = "given." + name
					g.Node = append([]*pb.NodeProto{node1("Compress", names(given, "mask."), names(name), attrInt("axis", 0))}, g.Node...)
					g.Input = append(g.Input, info("mask.", tBool, x.Shape[0]))
					w.in["mask."] = tensor.Must(tensor.FromSlice(slices.Repeat([]bool{true}, x.Shape[0]), x.Shape[0]))
					delete(w.in, name)
				}
				if mode != "constant" {
					g.Input = append(g.Input, info(given, pb.DataType(types[name]), dims...))
					w.in[given] = x
				}
				err := func() (err error) {
					defer func() {
						if r := recover(); r != nil {
							err = fmt.Errorf("PANIC %v", r)
						}
					}()
					if mode == "open" {
						withHints(t, x.Shape[0])
					}
					m, err := Parse(pb.Marshal(&changed), "")
					if err != nil {
						return err
					}
					return w.checkOpen(m)
				}()
				if err != nil {
					fmt.Fprintf(out, "%s %s %s: %v\n", v.name, name, mode, err)
				}
			}
		}
	}
	t.Log(total)
}
