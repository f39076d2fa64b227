package command

import (
	"strings"
	"testing"
)

func TestFileLabels(t *testing.T) {
	for _, c := range [][2]string{
		{"a/x.onnx b/y.onnx", "x.onnx y.onnx"}, {"a/m.onnx b/m.onnx c/m.onnx n.onnx", "a/m.onnx b/m.onnx c/m.onnx n.onnx"},
		{"a/m.onnx a/m.onnx", "m.onnx m.onnx"}, {"a/b/model.onnx", "b/model.onnx"}, {"model.onnx", "model.onnx"},
		{"/model.onnx", "model.onnx"}, {"../model.onnx", "model.onnx"},
		{"a/b/model.onnx c/b/model.onnx", "a/b/model.onnx c/b/model.onnx"},
	} {
		paths := strings.Fields(c[0])
		labels := FileLabels(paths)
		for i, want := range strings.Fields(c[1]) {
			if labels[paths[i]] != want {
				t.Errorf("%s is called %s, want %s", paths[i], labels[paths[i]], want)
			}
		}
	}
}
