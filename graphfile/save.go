package graphfile

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"weak"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/sorted"
	"github.com/graphrun/graphrun/tensor"
)

// Save writes the graph in version 1 of the file format, one node per line. [Parse] reads the same graph from the file:
// the same names, order, operands, attributes (without default values), layouts of inputs and constants, symbols, pins
// (layouts, implementations and devices that the user demands) and outputs. Saving a graph twice gives the same bytes.
// For example:
//
//	{
//	  "version": 1,
//	  "inputs": [
//	    {"name": "x", "dtype": "float32", "shape": [2, 3]}
//	  ],
//	  "nodes": [
//	    {"name": "y", "op": "relu", "inputs": ["x"]}
//	  ],
//	  "outputs": [
//	    "y"
//	  ]
//	}
//
// A constant that was read from a file is written as a reference to that file. The data of all other constants are
// written exactly, except for the payloads of NaNs. Save writes implementations that pins demand, but not
// implementations that passes chose. If passes rewrote the graph, Save writes the rewritten nodes. Reading the file
// infers the types of values again.
func Save(w io.Writer, g *graph.Graph) error {
	saving := &saver{graph: g}
	return saving.save(w)
}

// SaveFile writes the graph as [Save] does, to a file on disk. It replaces the file by renaming, so a failure leaves
// the old file unchanged. A constant that was read from a file is written as a reference if its path, relative to the
// new folder, refers to the same file. Otherwise SaveFile writes the data of the constant.
func SaveFile(path string, g *graph.Graph, opts ...SaveOption) error {
	saving := &saver{graph: g, dir: filepath.Dir(path)}
	for _, option := range opts {
		if option != nil {
			option(saving)
		}
	}
	if saving.sideFile != "" && (saving.inSideFile == nil || saving.write == nil) {
		return fmt.Errorf("file %q: SideFile needs the functions selects and write", saving.sideFile)
	}
	if saving.sideFile != "" && !filepath.IsLocal(filepath.FromSlash(saving.sideFile)) {
		return fmt.Errorf("file %q is outside the folder of the graph file", saving.sideFile)
	}
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		return fmt.Errorf("%s is a folder", path) // checked before the side file is replaced
	}
	return saving.replace(path)
}

// SaveOption configures [SaveFile].
type SaveOption func(*saver)

// SideFile writes the data of some constants to another file, the side file, in the folder of the graph file. name is
// the name of the side file. Its extension determines the format (.npz or .safetensors). selects returns true for the
// constants to write. write gets the path of the side file, and the tensors with their keys. The key of a constant is
// its name. For a constant of a subgraph (a graph that is an attribute of a node), the names of the node and of the
// attribute precede the constant's name. Saving fails if it would overwrite a file from which constants of the graph
// were read.
func SideFile(name string, selects func(*graph.Value) bool,
	write func(path string, names []string, data []*tensor.Tensor) error) SaveOption {
	return func(s *saver) { s.sideFile, s.inSideFile, s.write = name, selects, write }
}

// saver writes one graph. buf holds the current line.
type saver struct {
	graph *graph.Graph
	buf   bytes.Buffer
	// For a graph that is an attribute, indent precedes each line and keyPrefix precedes the keys of its constants.
	indent, keyPrefix string

	dir string // the folder of the new file; empty for Save, which keeps all paths of constants

	// These are the parameters of SideFile. inSideFile is the parameter selects.
	sideFile   string
	inSideFile func(*graph.Value) bool
	write      func(path string, names []string, data []*tensor.Tensor) error

	names          []string         // the keys of the tensors for the side file
	data           []*tensor.Tensor // the tensors for the side file
	wouldOverwrite bool             // constants were read from the file that the side file would overwrite
}

// replace writes the graph and the side file. The file at path is replaced last.
func (s *saver) replace(path string) error {
	file, err := os.CreateTemp(s.dir, filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer os.Remove(file.Name()) // does nothing after the rename
	err = s.save(file)
	if err == nil {
		err = file.Chmod(0o644)
	}
	if closeErr := file.Close(); err == nil {
		err = closeErr
	}
	switch {
	case err != nil || s.data == nil: // no side file
	case s.wouldOverwrite:
		err = fmt.Errorf("cannot write the side file %q: constants of this graph were read from it", s.sideFile)
	default:
		err = s.write(filepath.Join(s.dir, filepath.FromSlash(s.sideFile)), s.names, s.data)
	}
	if err != nil {
		return err
	}
	return os.Rename(file.Name(), path)
}

// save writes the graph to w, section by section.
func (s *saver) save(w io.Writer) error {
	if w == nil {
		return errors.New("the writer is nil")
	}
	if s.graph == nil {
		return errors.New("the graph is nil")
	}
	if err := s.graph.Err(); err != nil {
		return fmt.Errorf("a graph with mistakes is not written: %w", err)
	}
	s.graph = s.graph.WithConstantDefaults() // a graph file has no defaults of inputs
	if err := s.checkStrings(); err != nil {
		return err
	}
	g, out := s.graph, bufio.NewWriter(w)
	line := "\n" + s.indent
	out.WriteString("{" + line + "  \"version\": 1")
	if g.Name != "" {
		fmt.Fprintf(out, ",%s  \"name\": %s", line, quote(g.Name))
	}
	if len(g.Symbols) > 0 {
		s.writeSymbols(out)
	}
	var err error
	if g.Texts != nil && len(g.Texts.List()) > 0 {
		err = section(s, out, "strings", g.Texts.List(), func(text string) error {
			s.buf.WriteString(quote(text))
			return nil
		})
	}
	if err == nil {
		err = section(s, out, "inputs", g.Inputs, s.writeInput)
	}
	if err == nil && len(g.Constants) > 0 {
		err = section(s, out, "constants", g.Constants, s.writeConstant)
	}
	if err == nil {
		err = section(s, out, "nodes", g.Nodes, s.writeNode)
	}
	if err == nil {
		err = section(s, out, "outputs", g.Outputs, s.writeOutput)
	}
	if err != nil {
		return err
	}
	out.WriteString(line + "}")
	if s.indent == "" {
		out.WriteByte('\n')
	}
	return out.Flush()
}

// writeSymbols writes the section "symbols".
func (s *saver) writeSymbols(out *bufio.Writer) {
	line := "\n" + s.indent
	out.WriteString("," + line + "  \"symbols\": {")
	for i, name := range sorted.Keys(s.graph.Symbols) {
		if i > 0 {
			out.WriteByte(',')
		}
		fmt.Fprintf(out, "%s    %s: %s", line, quote(name), boundsText(s.graph.Symbols[name]))
	}
	out.WriteString(line + "  }")
}

// boundsText returns the JSON of a symbol's bounds and hint.
func boundsText(bounds graph.Bounds) string {
	var list []string
	for _, bound := range []struct {
		key  string
		size int
	}{{"min", bounds.Min}, {"max", bounds.Max}} {
		if bound.size > 0 { // 0 is the default of both bounds
			list = append(list, fmt.Sprintf("%q: %d", bound.key, bound.size))
		}
	}
	if bounds.Hint != nil {
		list = append(list, fmt.Sprintf("%q: %d", "hint", *bounds.Hint))
	}
	return "{" + strings.Join(list, ", ") + "}"
}

// section writes a list, one member per line.
func section[T any](saving *saver, out *bufio.Writer, key string, list []T, writeMember func(T) error) error {
	fmt.Fprintf(out, ",\n%s  %q: [", saving.indent, key)
	for i, member := range list {
		if i > 0 {
			out.WriteByte(',')
		}
		out.WriteString("\n" + saving.indent + "    ")
		saving.buf.Reset()
		if err := writeMember(member); err != nil {
			return err
		}
		if _, err := out.Write(saving.buf.Bytes()); err != nil {
			return err
		}
	}
	if len(list) > 0 {
		out.WriteString("\n" + saving.indent + "  ")
	}
	return out.WriteByte(']')
}

func (s *saver) writeInput(v *graph.Value) error {
	s.writeValueHead(v)
	s.writeLayout(v)
	s.buf.WriteByte('}')
	return nil
}

// writeConstant writes the declaration of a constant, with its data or a reference to the file that has the data.
func (s *saver) writeConstant(v *graph.Value) error {
	if v.Packed != nil { // files hold the unpacked data
		unpacked := *v
		unpacked.Const, unpacked.Packed = v.Data(), nil
		unpacked.SetMeta(unpacked.Const.Meta)
		v = &unpacked
	}
	if err := checkStorageSize(v.Meta); err != nil {
		return fmt.Errorf("constant %q: %w: make it dense first", v.Name, err)
	}
	if s.isText(v) {
		if err := checkTexts(v); err != nil {
			return err
		}
	}
	s.writeValueHead(v)
	s.writeLayout(v)
	ref := constFileOf(s.graph, v)
	file, key := ref.path, ref.key
	switch {
	case s.keepsReference(ref.path): // the reference stays as it is
	case s.sideFile != "" && !s.isText(v) && s.inSideFile(v):
		file, key = s.sideFile, s.keyPrefix+v.Name
		s.names, s.data = append(s.names, key), append(s.data, v.Const)
	default:
		file = ""
	}
	if file != "" {
		fmt.Fprintf(&s.buf, ", \"file\": %s", quote(file))
		if key != "" {
			fmt.Fprintf(&s.buf, ", \"key\": %s", quote(key))
		}
	} else {
		s.buf.WriteString(", \"data\": ")
		writeData(&s.buf, v.Const)
	}
	s.buf.WriteByte('}')
	return nil
}

// constFileOf returns the file of a constant, or the zero constRef if the constant is not from a file.
func constFileOf(g *graph.Graph, v *graph.Value) constRef {
	if src := sourceOf(g); src != nil && v.Const != nil {
		return src.files[weak.Make(v.Const)]
	}
	return constRef{}
}

// keepsReference reports whether the new file can keep the path of a constant's file. Relative to the new folder, the
// path must refer to the original, which is the file from which the constant was read. The result is false for an empty
// path. If the new folder is unknown, the result is true for any other path. If the side file would overwrite the
// original, keepsReference sets s.wouldOverwrite.
func (s *saver) keepsReference(path string) bool {
	if path == "" || s.dir == "" {
		return path != ""
	}
	dir, ok := sourceOf(s.graph).folder.OnDisk()
	original, err := os.Stat(filepath.Join(dir, filepath.FromSlash(path)))
	if err != nil || !ok {
		return false
	}
	isOriginal := func(name string) bool {
		info, err := os.Stat(filepath.Join(s.dir, filepath.FromSlash(name)))
		return err == nil && os.SameFile(original, info)
	}
	s.wouldOverwrite = s.wouldOverwrite || s.sideFile != "" && isOriginal(s.sideFile)
	return isOriginal(path)
}

// writeNode writes a node on one line.
func (s *saver) writeNode(n *graph.Node) error {
	if n.Packing() != nil {
		return fmt.Errorf("node %q packs a constant for an implementation, which files cannot hold: fold it first", n.Name)
	}
	fmt.Fprintf(&s.buf, "{\"name\": %s, \"op\": %s, \"inputs\": [", quote(n.Name), quote(n.Op.Name))
	for i, arg := range n.In {
		if i > 0 {
			s.buf.WriteString(", ")
		}
		switch arg.Kind {
		case graph.TensorArg:
			s.buf.WriteString(quote(arg.Value.Name))
		case graph.NumberArg:
			s.writeOperandNumber(arg.Number)
		default:
			s.buf.WriteString("null")
		}
	}
	s.buf.WriteByte(']')
	if err := s.writeAttrs(n); err != nil {
		return fmt.Errorf("node %q (%s): %w", n.Name, n.Op.Name, err)
	}
	if len(n.Out) != 1 || n.Out[0].Name != n.Name { // the default is one result with the name of the node
		for i, v := range n.Out {
			sep := ", "
			if i == 0 {
				sep = ", \"outputs\": ["
			}
			s.buf.WriteString(sep + quote(v.Name))
		}
		s.buf.WriteByte(']')
	}
	s.writePin(n.Pin)
	s.buf.WriteByte('}')
	return nil
}

func (s *saver) writeOutput(output graph.Output) error {
	isText := s.graph.Labels[output.Name].IsText()
	if output.Name == output.Value.Name && output.Pin == (graph.Pin{}) && !isText {
		s.buf.WriteString(quote(output.Name))
		return nil
	}
	fmt.Fprintf(&s.buf, "{\"value\": %s", quote(output.Value.Name))
	if output.Name != output.Value.Name {
		fmt.Fprintf(&s.buf, ", \"name\": %s", quote(output.Name))
	}
	if isText {
		fmt.Fprintf(&s.buf, ", \"dtype\": %q", textType)
	}
	s.writePin(output.Pin)
	s.buf.WriteByte('}')
	return nil
}

// writeValueHead writes the common keys of inputs and constants: name, dtype and shape.
func (s *saver) writeValueHead(v *graph.Value) {
	dtype := v.Meta.DType.String()
	if s.isText(v) {
		dtype = textType
	}
	fmt.Fprintf(&s.buf, "{\"name\": %s, \"dtype\": %q, \"shape\": ", quote(v.Name), dtype)
	if v.Dims == nil {
		s.writeInts(v.Meta.Shape)
	} else {
		s.writeDims(v.Dims)
	}
}

// writeLayout writes the layout of an input or a constant: strides, memory format or order, and offset.
func (s *saver) writeLayout(v *graph.Value) {
	hasPinnedOrder := false // whether the memory format or order of the pin determines the strides
	layout := v.Layout()
	if layout.SetsLayout() {
		order, err := layout.OrderFor(v.Meta.Rank())
		hasPinnedOrder = err == nil && slices.Equal(order.Strides(v.Meta.Shape), v.Meta.Strides)
	}
	offset := graph.Dim{Size: v.Meta.Offset}
	switch {
	case v.Dims != nil: // the sizes depend on symbols: write the layout as it was declared
		declared := v.Declared()
		offset = declared.Offset
		if declared.Strides != nil {
			s.buf.WriteString(", \"strides\": ")
			s.writeDims(declared.Strides)
		} else if layout.SetsLayout() {
			s.writePin(layout)
		}
	case hasPinnedOrder:
		s.writePin(layout)
	case !slices.Equal(v.Meta.Strides, tensor.ContiguousStrides(v.Meta.Shape)): // not the default, row-major
		s.buf.WriteString(", \"strides\": ")
		s.writeInts(v.Meta.Strides)
	}
	if offset != (graph.Dim{}) {
		s.buf.WriteString(", \"offset\": ")
		s.writeDim(offset)
	}
}

func (s *saver) writePin(pin graph.Pin) {
	if pin.Format != tensor.NoFormat {
		fmt.Fprintf(&s.buf, ", \"memory_format\": %q", pin.Format)
	}
	if pin.Order != "" {
		s.buf.WriteString(", \"order\": ")
		s.writeInts(pin.Order.Dims())
	}
	if pin.Impl != "" {
		fmt.Fprintf(&s.buf, ", \"impl\": %s", quote(pin.Impl))
	}
	if pin.Device != "" {
		fmt.Fprintf(&s.buf, ", \"device\": %s", quote(pin.Device))
	}
}

// writeDims writes sizes or strides, which may be symbols and expressions.
func (s *saver) writeDims(list []graph.Dim) {
	s.buf.WriteByte('[')
	for i, dim := range list {
		if i > 0 {
			s.buf.WriteString(", ")
		}
		s.writeDim(dim)
	}
	s.buf.WriteByte(']')
}

func (s *saver) writeDim(dim graph.Dim) {
	if dim.IsNumber() {
		fmt.Fprint(&s.buf, dim.Size)
	} else {
		s.buf.WriteString(quote(dim.String()))
	}
}

func (s *saver) writeInts(list []int) {
	s.buf.WriteByte('[')
	for i, number := range list {
		if i > 0 {
			s.buf.WriteString(", ")
		}
		fmt.Fprint(&s.buf, number)
	}
	s.buf.WriteByte(']')
}
