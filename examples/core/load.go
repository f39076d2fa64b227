package main

import (
	"archive/zip"
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand"
	"os"
	"path/filepath"
	"slices"
)

// This file reads the part of graphrun's graph format that core.go needs.

type attrs struct {
	Padding []int  `json:"padding"`
	Format  string `json:"memory_format"`
}

func (a attrs) padding(k int) int {
	if len(a.Padding) == 0 {
		return 0
	}
	return a.Padding[min(k, len(a.Padding)-1)]
}

type output struct {
	Value  string `json:"value"`
	Name   string `json:"name"`
	Format string `json:"memory_format"`
}

type declaration struct {
	Name    string    `json:"name"`
	Shape   []any     `json:"shape"`
	Strides []int     `json:"strides"`
	Format  string    `json:"memory_format"`
	File    string    `json:"file"`
	Key     string    `json:"key"`
	Data    []float32 `json:"data"`
}

// load reads a graph. Inputs get random values, and symbols the size 2.
func load(path string) (*Graph, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var file struct {
		Inputs, Constants []declaration
		Nodes             []struct {
			Name, Op string
			Inputs   []string
			Attrs    attrs
		}
		Outputs []json.RawMessage
	}
	if err := json.Unmarshal(text, &file); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	g := &Graph{values: map[string]*Value{}}
	for i, d := range slices.Concat(file.Inputs, file.Constants) {
		v, err := d.value(filepath.Dir(path), i < len(file.Inputs))
		if err != nil {
			return nil, fmt.Errorf("%s: %q: %w", path, d.Name, err)
		}
		g.values[d.Name], g.given = v, append(g.given, v)
	}
	for _, f := range file.Nodes {
		var in []*Value
		for _, name := range f.Inputs {
			if g.values[name] == nil {
				return nil, fmt.Errorf("%s: node %q: there is no value %q before it", path, f.Name, name)
			}
			in = append(in, g.values[name])
		}
		g.add(f.Op, f.Name, in, f.Attrs)
	}
	for _, raw := range file.Outputs {
		var out output
		if json.Unmarshal(raw, &out.Value) != nil {
			if err := json.Unmarshal(raw, &out); err != nil {
				return nil, fmt.Errorf("%s: outputs: %w", path, err)
			}
		}
		if out.Name = cmp.Or(out.Name, out.Value); g.values[out.Value] == nil {
			return nil, fmt.Errorf("%s: output %q: there is no value %q", path, out.Name, out.Value)
		}
		g.outputs = append(g.outputs, out)
	}
	return g, nil
}

// value makes the declared value: its meta, and its data in this layout.
func (d declaration) value(folder string, isInput bool) (*Value, error) {
	shape := make([]int, len(d.Shape))
	for i, size := range d.Shape {
		if n, isNumber := size.(float64); isNumber {
			shape[i] = int(n)
		} else {
			shape[i] = 2
		}
	}
	v, packed := &Value{Name: d.Name, Meta: rowMajor(shape)}, rowMajor(shape)
	if format := formats[d.Format]; format != nil {
		v.Meta = format(shape)
	}
	extent := v.count()
	if d.Strides != nil {
		v.Strides, extent = d.Strides, 1
		for dim, size := range shape {
			extent += (size - 1) * d.Strides[dim]
		}
	}
	data := d.Data
	var err error
	switch {
	case isInput:
		data = make([]float32, v.count())
		for i := range data {
			data[i] = 2*rand.Float32() - 1
		}
	case d.File != "":
		data, err = readNPZ(filepath.Join(folder, d.File), d.Key)
	}
	if err == nil && len(data) != v.count() {
		err = fmt.Errorf("it has %d elements, want %d", len(data), v.count())
	}
	v.data = make([]float32, max(extent, 0))
	if err == nil {
		l := loopOf(packed, []*Value{v})
		l.run(0, v.count(), func(offsets []int) { v.data[offsets[1]] = data[offsets[0]] })
	}
	return v, err
}

// readNPZ reads an array of float32 in row-major order from an archive of numpy.
func readNPZ(path, key string) (data []float32, err error) {
	archive, err := zip.OpenReader(path)
	if err != nil {
		return nil, err
	}
	defer archive.Close()
	b, err := fs.ReadFile(archive, key+".npy")
	_, rest, ok := bytes.Cut(b, []byte("\n")) // the header is a line
	if err != nil || !ok || !bytes.Contains(b[:len(b)-len(rest)], []byte("'<f4', 'fortran_order': False")) {
		return nil, cmp.Or(err, errors.New("want row-major float32"))
	}
	data = make([]float32, len(rest)/4)
	return data, binary.Read(bytes.NewReader(rest), binary.LittleEndian, data)
}
