package graph

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/graphrun/graphrun/internal/numerals"
	"github.com/graphrun/graphrun/internal/sorted"
	"github.com/graphrun/graphrun/internal/suggest"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// The text of a graph has a statement on each line:
//
//	symbol N min=2 max=64 hint=8                       only for symbols with bounds or a hint
//	x: float32[N, 3, 4]@(12, 1, 3)+4 = input           strides and offset; without them the input is row-major
//	i: uint8[N, 3, 8, 8]@channels_last = input         strides by a memory format, or by order:0,2,3,1
//	w: float32[2] = constant [0.5, -Infinity]          without elements: see Parse
//	p: = permute(x, dims=[0, 2, 1]) pin channels_last  a node; its type may be omitted
//	v: float32[2], i: int64[2] = topk(p, k=2)          a node with two results
//	y: = mul(v, 2.0)  # why                            a number as an operand; a comment
//	r: = if(c, w, then_branch={                        a graph as an attribute
//	  a: float32[2] = input
//	  output a
//	}, else_branch={ ... })
//	output y
//	output z = p pin contiguous
//
// A name that is no word, such as "a b", is quoted. An attribute is a number, true, false, null, a quoted text, a list,
// a graph, or %name, which is a value of the graph.

// WriteText writes the graph as [Parse] reads it, each line with the given indentation: types as inferred, the data of
// constants with at most 16 elements, and the reasons of passes as comments. Nodes that passes made have ops that no
// catalogue has; Parse rejects them by name.
func (g *Graph) WriteText(w io.Writer, indent string) error {
	if g == nil || w == nil {
		return errors.New("want a graph and a writer")
	}
	p := &textPrinter{indent: indent}
	p.graph(g)
	_, err := io.WriteString(w, p.text.String())
	return err
}

// textPrinter prints a graph.
type textPrinter struct {
	text   strings.Builder
	indent string
}

func (p *textPrinter) line(format string, args ...any) {
	p.text.WriteString(p.indent)
	fmt.Fprintf(&p.text, format, args...)
	p.text.WriteByte('\n')
}

func (p *textPrinter) graph(g *Graph) {
	symbols := map[string]Bounds{}
	maps.Copy(symbols, g.Symbols)
	for name, size := range g.sizes { // the shapes in the text are those for these sizes
		if b, hint := symbols[name], size.Hint(); hint != b.assumedSize() {
			b.Hint = &hint
			symbols[name] = b
		}
	}
	for _, name := range sorted.Keys(symbols) {
		if text := boundsText(symbols[name]); text != "" {
			p.line("symbol %s%s", dimText(Dim{Symbol: name}), text)
		}
	}
	for _, v := range g.Inputs {
		p.line("%s: %s = input%s", textName(v.Name), typeText(v), pinText(v.Pin))
	}
	for _, v := range g.Constants {
		data := ""
		if packed := v.Packed; packed != nil {
			data = fmt.Sprintf(": %s in the form %q", metaText(packed.Meta), packed.Format)
		} else if n := v.Meta.Numel(); v.Const != nil && n <= maxTextElements {
			data = " " + elementsText(v.Const)
		}
		p.line("%s: %s = constant%s%s", textName(v.Name), typeText(v), data, pinText(v.Pin))
	}
	for _, n := range g.Nodes {
		p.node(n)
	}
	for _, o := range g.Outputs {
		value := ""
		if o.Name != o.Value.Name {
			value = " = " + textName(o.Value.Name)
		}
		p.line("output %s%s%s", textName(o.Name), value, pinText(o.Pin))
	}
}

func (p *textPrinter) node(n *Node) {
	var results, args []string
	for _, v := range n.Out {
		results = append(results, strings.TrimSuffix(textName(v.Name)+": "+typeText(v), " "))
	}
	for _, arg := range n.In {
		switch arg.Kind {
		case TensorArg:
			args = append(args, textName(arg.Value.Name))
		case NumberArg:
			args = append(args, scalarText(arg.Number))
		default:
			args = append(args, "null")
		}
	}
	for name, v := range n.AttrsAsGiven() {
		args = append(args, textName(name)+"="+p.attr(v))
	}
	tail := pinText(n.Pin)
	if len(n.Out) > 0 && n.Out[0].Alias != nil {
		tail += " view of " + textName(n.Out[0].Alias.Name)
	}
	if n.Why != "" {
		tail += " # " + strings.Join(strings.Fields(n.Why), " ")
	}
	p.line("%s = %s(%s)%s", strings.Join(results, ", "), textName(n.Op.Name), strings.Join(args, ", "), tail)
}

// attr returns the text of an attribute.
func (p *textPrinter) attr(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case ValueRef:
		return "%" + textName(v.Value.Name)
	case *Graph:
		body := &textPrinter{indent: p.indent + "  "}
		body.graph(v)
		return "{\n" + body.text.String() + p.indent + "}"
	case fmt.Stringer: // a dtype or a memory format
		if _, isNumber := tensor.ScalarOf(v); !isNumber {
			return strconv.Quote(v.String())
		}
	case string:
		return strconv.Quote(v)
	}
	if number, ok := tensor.ScalarOf(v); ok {
		return scalarText(number)
	}
	switch value := reflect.ValueOf(v); value.Kind() {
	case reflect.Pointer:
		if value.IsNil() {
			return "null"
		}
		return p.attr(value.Elem().Interface())
	case reflect.Slice:
		list := make([]string, value.Len())
		for i := range list {
			list[i] = p.attr(value.Index(i).Interface())
		}
		return "[" + strings.Join(list, ", ") + "]"
	}
	return strconv.Quote(fmt.Sprint(v))
}

// textName returns a name, quoted unless it is a word.
func textName(name string) string {
	first, _ := utf8.DecodeRuneInString(name)
	isWord := name != "" && !strings.ContainsFunc(name, func(r rune) bool { return !isWordRune(r) }) &&
		!unicode.IsDigit(first) && !strings.ContainsRune(".-", first) &&
		!slices.Contains([]string{"null", "true", "false", "output", "symbol"}, name) && !numerals.IsSpecial(name)
	if isWord {
		return name
	}
	return strconv.Quote(name)
}

// isWordRune reports whether a rune may be part of a name without quotes, or of a number.
func isWordRune(r rune) bool {
	return unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("_./-", r)
}

// typeText returns the type of a value, with the sizes of an input as they are declared. Strides are omitted if the
// value is row-major. The shape of a dynamic value is unknown.
func typeText(v *Value) string {
	if v.Meta.DType == tensor.Invalid { // the run infers it
		return ""
	}
	if v.Dynamic && v.Node != nil {
		return v.Meta.DType.String() + "[?]"
	}
	if v.Dims == nil || v.graph == nil || len(v.graph.sizes) == 0 {
		return metaText(v.Meta)
	}
	declared := v.Declared()
	text := declared.DType.String() + dimsList("[", v.Dims, "]")
	if declared.Strides != nil {
		text += "@" + dimsList("(", declared.Strides, ")")
	}
	if declared.Layout.SetsLayout() {
		text += "@" + declared.Layout.String()
	}
	if declared.Offset != (Dim{}) {
		text += "+" + dimText(declared.Offset)
	}
	return text
}

func metaText(m tensor.Meta) string {
	text := m.DType.String() + tensor.ListString(m.Shape)
	if !slices.Equal(m.Strides, tensor.ContiguousStrides(m.Shape)) {
		list := tensor.ListString(m.Strides)
		text += "@(" + list[1:len(list)-1] + ")"
	}
	if m.Offset != 0 {
		text += "+" + strconv.Itoa(m.Offset)
	}
	return text
}

func dimsList(open string, dims []Dim, end string) string {
	list := make([]string, len(dims))
	for i, d := range dims {
		list[i] = dimText(d)
	}
	return open + strings.Join(list, ", ") + end
}

// dimText returns a size. A symbol is quoted if its name reads as an expression, such as "a-b".
func dimText(d Dim) string {
	switch {
	case d.Symbol == "":
		return d.String()
	case isExpression(d.Symbol):
		return strconv.Quote(d.Symbol)
	}
	return textName(d.Symbol)
}

func pinText(pin Pin) string {
	if pin == (Pin{}) {
		return ""
	}
	return " pin " + strings.ReplaceAll(pin.String(), ", ", " pin ")
}

func boundsText(b Bounds) (text string) {
	if b.Min > 0 {
		text += fmt.Sprintf(" min=%d", b.Min)
	}
	if b.Max > 0 {
		text += fmt.Sprintf(" max=%d", b.Max)
	}
	if b.Hint != nil {
		text += fmt.Sprintf(" hint=%d", *b.Hint)
	}
	return text
}

// scalarText returns a number. A float has a point or an exponent; a complex number is a pair in parentheses.
func scalarText(s tensor.Scalar) string {
	float := func(x float64) string {
		if name := numerals.SpecialText(x); name != "" {
			return name
		}
		text := strconv.FormatFloat(x, 'g', -1, 64)
		if !strings.ContainsAny(text, ".e") {
			text += ".0"
		}
		return text
	}
	switch d := s.DType(); {
	case d.IsFloat():
		return float(s.Float())
	case d.IsComplex():
		return "(" + float(real(s.Complex())) + ", " + float(imag(s.Complex())) + ")"
	}
	return s.String()
}

// maxTextElements is the largest constant whose elements are in the text.
const maxTextElements = 16

func elementsText(t *tensor.Tensor) string {
	rows := t.Contiguous()
	list := make([]string, rows.Numel())
	for i := range list {
		element := rows.At(indexOf(i, rows.Shape)...)
		if rows.DType == tensor.Uint64 {
			list[i] = strconv.FormatUint(uint64(element.Int()), 10)
			continue
		}
		list[i] = scalarText(element)
		if rows.DType.IsFloat() && rows.DType.Size() <= 4 && strings.Contains(list[i], ".") {
			short := strconv.FormatFloat(element.Float(), 'g', -1, 32)
			if x, _ := strconv.ParseFloat(short, 64); strings.ContainsAny(short, ".e") && float64(float32(x)) == element.Float() {
				list[i] = short
			}
		}
	}
	return "[" + strings.Join(list, ", ") + "]"
}

// indexOf returns the index of element i of a row-major shape.
func indexOf(i int, shape []int) []int {
	index := make([]int, len(shape))
	for d := len(shape) - 1; d >= 0; d-- {
		index[d], i = i%shape[d], i/shape[d]
	}
	return index
}

// Parse reads a graph from its text, as [Graph.WriteText] writes it, and infers it. lookup finds ops by name. A value is
// defined before it is used. A dtype or shape that a node states must be the inferred one; strides are not compared,
// because passes may have chosen them. A constant without elements has the elements (i%17 - 8)/8, or i%5 for integers.
// Errors have the line and the column.
func Parse(text string, lookup Lookup) (*Graph, error) {
	p := &textParser{text: text, lookup: lookup}
	g := p.graph("graph")
	if p.err == nil && p.pos < len(p.text) {
		p.fail("want a statement, have %q", p.text[p.pos:p.pos+1])
	}
	if p.err == nil {
		p.err = g.Err()
	}
	if p.err != nil {
		return nil, p.err
	}
	return g, nil
}

// maxTextDepth bounds the nesting of lists and graphs.
const maxTextDepth = 64

// textParser parses a graph. After an error, pos is at the end of the text.
type textParser struct {
	text   string
	pos    int
	depth  int // of the brackets around the position, within the innermost graph
	nested int // of all lists and graphs around the position
	lookup Lookup
	err    error
}

// fail records an error at the current position, unless there is one already.
func (p *textParser) fail(format string, args ...any) {
	p.failAt(p.pos, fmt.Errorf(format, args...))
}

func (p *textParser) failAt(pos int, err error) {
	if p.err == nil {
		before := p.text[:pos]
		line := strings.Count(before, "\n") + 1
		col := utf8.RuneCountInString(before[strings.LastIndexByte(before, '\n')+1:]) + 1
		p.err = &Error{File: "text", Line: line, Col: col, Err: err}
	}
	p.pos = len(p.text)
}

// space skips white space and, if lines is true, line ends and comments.
func (p *textParser) space(lines bool) {
	for p.pos < len(p.text) {
		switch c := p.text[p.pos]; {
		case c == ' ' || c == '\t' || c == '\r' || c == '\n' && lines:
			p.pos++
		case c == '#' && lines:
			p.comment()
		default:
			return
		}
	}
}

func (p *textParser) comment() {
	if n := strings.IndexByte(p.text[p.pos:], '\n'); n >= 0 {
		p.pos += n
	} else {
		p.pos = len(p.text)
	}
}

// accept skips a mark, and reports whether it is there.
func (p *textParser) accept(mark string) bool {
	p.space(p.depth > 0 && mark != "}")
	if strings.HasPrefix(p.text[p.pos:], mark) {
		p.pos += len(mark)
		return true
	}
	return false
}

func (p *textParser) want(mark string) {
	if !p.accept(mark) {
		p.fail("want %q", mark)
	}
}

// word reads a word, or "" if there is none.
func (p *textParser) word() string {
	p.space(p.depth > 0)
	rest := p.text[p.pos:]
	n := strings.IndexFunc(rest, func(r rune) bool { return !isWordRune(r) })
	if n < 0 {
		n = len(rest)
	}
	p.pos += n
	return rest[:n]
}

// quoted reads a quoted text.
func (p *textParser) quoted() string {
	prefix, err := strconv.QuotedPrefix(p.text[p.pos:])
	if err != nil {
		p.fail("want the end of the quoted text")
		return ""
	}
	text, err := strconv.Unquote(prefix)
	if err != nil {
		p.fail("%q is no quoted text", prefix)
	}
	p.pos += len(prefix)
	return text
}

// name reads the name of a value, an op, an attribute or a symbol.
func (p *textParser) name() string {
	p.space(p.depth > 0)
	start := p.pos
	name := p.tryName()
	if name == "" {
		p.failAt(start, errors.New("want a name"))
	}
	return name
}

// graph reads statements up to the end or a closing brace.
func (p *textParser) graph(name string) *Graph {
	g := New(name, p.lookup)
	depth := p.depth
	p.depth = 0
	defer func() { p.depth = depth }()
	for {
		if p.space(true); p.err != nil || p.pos == len(p.text) || p.text[p.pos] == '}' {
			return g
		}
		p.statement(g)
		if p.space(false); p.pos < len(p.text) && p.text[p.pos] == '#' {
			p.comment()
		}
		if p.err == nil && p.pos < len(p.text) && p.text[p.pos] != '\n' && p.text[p.pos] != '}' {
			p.fail("want the end of the line, have %q", strings.SplitN(p.text[p.pos:], "\n", 2)[0])
		}
	}
}

// declared is a result on the left of a statement. typed reports whether the text has the dtype and the shape.
type declared struct {
	name  string
	pos   int
	typed bool
	decl  Decl
}

func (p *textParser) statement(g *Graph) {
	start := p.pos
	switch first := p.word(); first {
	case "output":
		p.output(g, start)
		return
	case "symbol":
		p.symbol(g)
		return
	default:
		p.pos = start
	}
	var results []declared
	for {
		p.space(false)
		d := declared{pos: p.pos}
		d.name = p.name()
		if p.err == nil && (g.Value(d.name) != nil || slices.ContainsFunc(results, func(o declared) bool { return o.name == d.name })) {
			p.failAt(d.pos, g.nameError(d.name))
		}
		if p.accept(":") {
			p.space(false)
			if d.typed = !strings.HasPrefix(p.text[p.pos:], "=") && !strings.HasPrefix(p.text[p.pos:], ","); d.typed {
				d.decl = p.decl()
			}
		}
		if results = append(results, d); p.err != nil || !p.accept(",") {
			break
		}
	}
	p.want("=")
	kind := p.name()
	if p.err != nil {
		return
	}
	if p.space(false); strings.HasPrefix(p.text[p.pos:], "(") {
		p.node(g, results, kind, start)
		return
	}
	d := results[0]
	switch {
	case kind != "input" && kind != "constant":
		p.fail("want the operands of %s in parentheses", textName(kind))
	case len(results) > 1 || !d.typed || d.decl.Dims == nil:
		p.failAt(d.pos, fmt.Errorf("an %s has one name and a type, as in x: float32[2, 3] = %s", kind, kind))
	case kind == "input":
		p.input(g, d)
	default:
		p.constant(g, d)
	}
}

// input reads the rest of an input.
func (p *textParser) input(g *Graph, d declared) {
	v := g.InputDecl(d.name, d.decl)
	p.pinSource(v)
	p.built(g, d.pos)
}

// constant reads the rest of a constant.
func (p *textParser) constant(g *Graph, d declared) {
	var meta tensor.Meta
	declaredType, err := d.decl.Type(g.sizes)
	if err == nil && d.decl.symbolic() {
		err = fmt.Errorf("the sizes of constant %q are numbers", d.name)
	}
	if err == nil {
		meta, _ = declaredType.Meta()
		err = meta.Check()
	}
	if p.space(false); err == nil && p.pos < len(p.text) && p.text[p.pos] == ':' {
		err = fmt.Errorf("constant %q is packed for an implementation: take the text before the passes that pack", d.name)
	}
	if err != nil {
		p.failAt(d.pos, err)
		return
	}
	var elements []any
	if strings.HasPrefix(p.text[p.pos:], "[") {
		elements, _ = p.value(g).([]any)
		if p.err == nil && len(elements) != meta.Numel() {
			p.fail("constant %q has %d elements, its shape %v", d.name, len(elements), meta.Shape)
		}
	}
	if p.err != nil {
		return
	}
	t, err := constantOf(meta, elements)
	if err != nil {
		p.failAt(d.pos, fmt.Errorf("constant %q: %w", d.name, err))
		return
	}
	v := g.Constant(d.name, t)
	p.pinSource(v)
	p.built(g, d.pos)
}

// pinSource reads the pins of an input or a constant.
func (p *textParser) pinSource(v *Value) {
	p.space(false)
	start := p.pos
	if pin := p.pins(); p.err == nil && pin != (Pin{}) && v.graph.Err() == nil {
		if err := v.pinSource(pin); err != nil {
			p.failAt(start, err)
		}
	}
}

// constantOf returns a tensor with the given elements in row-major order or, if they are nil, with the elements that
// [Parse] documents. It returns an error for an element that is no number of the dtype, or if there is no memory.
func constantOf(meta tensor.Meta, elements []any) (t *tensor.Tensor, err error) {
	defer tensor.CatchMemory(&err)
	rows := tensor.Empty(tensor.New(meta.DType, meta.Shape...))
	for i, element := range elements {
		number, isNumber := elementOf(element, meta.DType)
		if !isNumber {
			return nil, fmt.Errorf("element %d is no %s", i, meta.DType)
		}
		rows.SetFlat(i, number)
	}
	if elements == nil {
		const period = 17 * 5
		for i := range min(period, meta.Numel()) {
			number := tensor.FloatScalar(float64(i%17-8) / 8)
			if !meta.DType.IsFloat() && !meta.DType.IsComplex() {
				number = tensor.IntScalar(int64(i % 5))
			}
			rows.SetFlat(i, number)
		}
		data := rows.Storage().Bytes()
		for done := period * meta.DType.Size(); done < len(data); done *= 2 {
			copy(data[done:], data[:done])
		}
	}
	if rows.Offset == meta.Offset && rows.SameLayout(meta) {
		return rows, nil
	}
	t = tensor.Empty(meta)
	tensor.CopyElements(t, rows)
	return t, nil
}

// elementOf returns an attribute as an element of a dtype. ok is false if it is no number, or if an integer dtype does
// not have it.
func elementOf(v any, dtype tensor.DType) (_ tensor.Scalar, ok bool) {
	if bits, isLarge := v.(uint64); isLarge {
		if dtype == tensor.Uint64 {
			return tensor.IntScalar(int64(bits)), true // its low 64 bits are stored
		}
		v = float64(bits)
	}
	number, ok := tensor.ScalarOf(v)
	if !ok || dtype.IsComplex() {
		return number, ok
	}
	if number.DType().IsComplex() {
		return number, false
	}
	return number, dtype.IsFloat() || number.Tensor(dtype).At().Float() == number.Float()
}

// built moves an error of the builder to its place in the text.
func (p *textParser) built(g *Graph, pos int) {
	if err := g.Err(); err != nil && p.err == nil {
		p.failAt(pos, err)
	}
}

// node reads the operands, attributes and pins of a node, and adds it.
func (p *textParser) node(g *Graph, results []declared, op string, start int) {
	n := &Node{Name: results[0].name}
	if len(results) > 1 {
		n.Name = strings.TrimSuffix(n.Name, "_0")
	}
	operands, attrs := p.arguments(g)
	n.Pin = p.pins()
	if p.space(false); p.err == nil && p.accept("view of ") { // it follows from the op
		p.name()
	}
	if p.err != nil {
		return
	}
	err := g.apply(n, op, attrs, operands, len(results), true)
	if err == nil && n.Pin != (Pin{}) {
		err = n.Pin.check()
	}
	if err != nil {
		p.failAt(start, &Error{Node: n.Name, Op: op, Err: err})
		return
	}
	for i, v := range n.Out {
		v.Named(results[i].name)
		if err := results[i].agrees(v, g.sizes); err != nil {
			p.failAt(results[i].pos, &Error{Node: n.Name, Op: op, Err: err})
		}
	}
	p.built(g, start)
}

// agrees returns an error if a value has another dtype or shape than its declaration.
func (d declared) agrees(v *Value, sizes map[string]sym.Int) error {
	if !d.typed {
		return nil
	}
	if d.decl.DType != v.Meta.DType {
		return fmt.Errorf("%s is %s, but the text has %s", textName(v.Name), v.Meta.DType, d.decl.DType)
	}
	if d.decl.Dims == nil || v.Dynamic {
		return nil
	}
	shape, err := evaluateDims(d.decl.Dims, sizes)
	if err != nil {
		return err
	}
	if !slices.EqualFunc(shape, v.Type.Shape, func(a, b sym.Int) bool { return a.Hint() == b.Hint() }) {
		return fmt.Errorf("%s is %s, but the text has %s", textName(v.Name), tensor.ListString(v.Meta.Shape),
			dimsList("[", d.decl.Dims, "]"))
	}
	return nil
}

// arguments reads operands and attributes in parentheses.
func (p *textParser) arguments(g *Graph) (operands []any, attrs Attrs) {
	p.want("(")
	p.depth++
	defer func() { p.depth-- }()
	for first := true; p.err == nil && !p.accept(")"); first = false {
		if !first {
			p.want(",")
		}
		p.space(true)
		start := p.pos
		if name := p.tryName(); name != "" && p.accept("=") {
			if attrs == nil {
				attrs = Attrs{}
			}
			if _, twice := attrs[name]; twice {
				p.failAt(start, fmt.Errorf("attribute %q is given twice", name))
			}
			attrs[name] = p.value(g)
			continue
		}
		p.pos = start
		if attrs != nil {
			p.fail("want an attribute: operands come before attributes")
		}
		operands = append(operands, p.operand(g))
	}
	return operands, attrs
}

// tryName reads a name if there is one.
func (p *textParser) tryName() string {
	if strings.HasPrefix(p.text[p.pos:], `"`) {
		return p.quoted()
	}
	return p.word()
}

// operand reads the name of a value, a number or null.
func (p *textParser) operand(g *Graph) any {
	start := p.pos
	if !strings.HasPrefix(p.text[p.pos:], `"`) {
		if v, ok := p.literal(); ok || p.err != nil {
			return v
		}
		p.pos = start
	}
	return p.valueOf(g)
}

// valueOf reads the name of a value of the graph.
func (p *textParser) valueOf(g *Graph) *Value {
	start := p.pos
	name := p.name()
	v := g.Value(name)
	if v == nil && p.err == nil {
		near := suggest.Nearest(name, func(yield func(string) bool) {
			more := true
			g.Values(func(v *Value) { more = more && yield(v.Name) })
		})
		p.failAt(start, fmt.Errorf("no value %q is defined before%s", name, suggest.DidYouMean(near)))
	}
	return v
}

// literal reads a number, true, false or null. ok is false if the next word is none of them.
func (p *textParser) literal() (v any, ok bool) {
	if p.accept("(") { // a complex number
		re, _ := p.number()
		p.want(",")
		im, _ := p.number()
		p.want(")")
		x, isNumber := numerals.Float(re)
		y, isToo := numerals.Float(im)
		if !isNumber || !isToo {
			p.fail("want a complex number as (1.0, 2.0)")
		}
		return complex(x, y), true
	}
	return p.number()
}

// number reads a number that is not complex, true, false or null, as literal does.
func (p *textParser) number() (v any, ok bool) {
	sign := ""
	if p.accept("+") {
		sign = "+"
	}
	word := p.word()
	switch word {
	case "null":
		return nil, true
	case "true", "false":
		return word == "true", true
	case "":
		return nil, false
	}
	if strings.HasSuffix(word, "e") && p.pos < len(p.text) && p.text[p.pos] == '+' { // 1e+20
		p.pos++
		word += "+" + p.word()
	}
	if x, special := numerals.Special(sign + word); special {
		return x, true
	}
	if i, err := strconv.ParseInt(word, 10, 64); err == nil {
		return i, true
	}
	if i, err := strconv.ParseUint(word, 10, 64); err == nil {
		return i, true // an element of a constant: see elementOf
	}
	if x, err := strconv.ParseFloat(word, 64); err == nil && strings.ContainsAny(word, ".eE") {
		return x, true
	}
	return nil, false
}

// value reads an attribute.
func (p *textParser) value(g *Graph) any {
	if p.nested++; p.nested > maxTextDepth {
		p.fail("lists and graphs are nested more than %d deep", maxTextDepth)
		return nil
	}
	p.depth++
	defer func() { p.depth, p.nested = p.depth-1, p.nested-1 }()
	if p.space(true); p.pos == len(p.text) {
		p.fail("want an attribute")
		return nil
	}
	switch start := p.pos; p.text[p.pos] {
	case '"':
		return p.quoted()
	case '%':
		p.pos++
		return ValueRef{p.valueOf(g)}
	case '[':
		p.pos++
		list := []any{}
		for first := true; p.err == nil && !p.accept("]"); first = false {
			if !first {
				p.want(",")
			}
			list = append(list, p.value(g))
		}
		return list
	case '{':
		p.pos++
		body := p.graph("body")
		if p.space(true); p.err == nil {
			p.want("}")
			p.built(body, start)
		}
		return body
	default:
		v, ok := p.literal()
		if !ok {
			p.failAt(start, fmt.Errorf("want a number, true, false, null, a quoted text, a list, %%NAME or a graph in braces"))
		}
		return v
	}
}

// decl reads a type: float32[N, 3]@(3, 1)+4. The shape of float32[?] is nil.
func (p *textParser) decl() (d Decl) {
	start := p.pos
	word := p.word()
	dtype, err := tensor.ParseDType(word)
	if err != nil && p.err == nil {
		p.failAt(start, err)
		return d
	}
	d.DType = dtype
	p.want("[")
	if p.accept("?") {
		p.want("]")
		return d
	}
	d.Dims = p.dims("]")
	if p.accept("@") {
		if p.accept("(") {
			d.Strides = p.dims(")")
		} else {
			d.Layout = p.pin(" \t\r\n=+")
		}
	}
	if p.accept("+") {
		d.Offset = p.dim("=,")
	}
	return d
}

// dims reads sizes up to a mark.
func (p *textParser) dims(end string) []Dim {
	dims := []Dim{}
	for first := true; p.err == nil && !p.accept(end); first = false {
		if !first {
			p.want(",")
		}
		dims = append(dims, p.dim(","+end))
	}
	return dims
}

// dim reads a number, a symbol or an expression, up to one of the ends outside of parentheses.
func (p *textParser) dim(ends string) Dim {
	if p.space(false); strings.HasPrefix(p.text[p.pos:], `"`) {
		return Dim{Symbol: p.name()}
	}
	open := 0
	n := strings.IndexFunc(p.text[p.pos:], func(r rune) bool {
		if open == 0 && strings.ContainsRune(ends+"\n", r) {
			return true
		}
		switch r {
		case '(':
			open++
		case ')':
			open--
		}
		return false
	})
	if n < 0 {
		n = len(p.text) - p.pos
	}
	text := strings.TrimSpace(p.text[p.pos : p.pos+n])
	if text == "" {
		p.fail("want a size")
		return Dim{}
	}
	p.pos += n
	if size, err := strconv.Atoi(text); err == nil {
		return Dim{Size: size}
	}
	return ParseDim(text)
}

// pins reads pins at the end of a statement.
func (p *textParser) pins() (pin Pin) {
	for p.err == nil && p.accept("pin ") {
		start := p.pos
		one := p.pin(" \t\r\n#")
		if one.SetsLayout() && pin.SetsLayout() || one.Impl != "" && pin.Impl != "" ||
			one.Device != "" && pin.Device != "" {
			p.failAt(start, fmt.Errorf("pin %v: the value has another such pin", one))
		}
		pin.add(one)
	}
	return pin
}

// pin reads a pin up to one of the ends.
func (p *textParser) pin(ends string) Pin {
	p.space(false)
	n := strings.IndexAny(p.text[p.pos:], ends)
	if n < 0 {
		n = len(p.text) - p.pos
	}
	pin, err := ParsePin(p.text[p.pos : p.pos+n])
	if err != nil {
		p.failAt(p.pos, err)
		return Pin{}
	}
	p.pos += n
	return pin
}

// symbol reads the bounds and the hint of a symbol.
func (p *textParser) symbol(g *Graph) {
	p.space(false)
	namePos := p.pos
	name, b := p.name(), Bounds{}
	for p.err == nil {
		start := p.pos
		key := p.word()
		if key == "" {
			break
		}
		p.want("=")
		size, err := strconv.Atoi(p.word())
		switch {
		case err != nil:
			p.failAt(start, fmt.Errorf("want %s=NUMBER", key))
		case key == "min":
			b.Min = size
		case key == "max":
			b.Max = size
		case key == "hint":
			b.Hint = &size
		default:
			p.failAt(start, fmt.Errorf("want min, max or hint, have %q", key))
		}
	}
	_, exists := g.Symbols[name]
	switch {
	case p.err != nil:
		return
	case exists:
		p.failAt(namePos, fmt.Errorf("symbol %q: want one line, before the first use", name))
	case b.Min < 0 || b.Max != 0 && b.Max < b.Min:
		p.failAt(namePos, fmt.Errorf("symbol %q: want 0 <= min <= max, got min %d and max %d", name, b.Min, b.Max))
	case b.Hint != nil && b.Clamp(*b.Hint) != *b.Hint:
		p.failAt(namePos, fmt.Errorf("symbol %q: the hint %d is outside its bounds: %s", name, *b.Hint, b.text()))
	}
	if g.Symbols == nil {
		g.Symbols = map[string]Bounds{}
	}
	g.Symbols[name] = b
}

// output reads an output.
func (p *textParser) output(g *Graph, start int) {
	p.space(false)
	namePos := p.pos
	name := p.name()
	valuePos := namePos
	if p.accept("=") {
		p.space(false)
		valuePos = p.pos
	}
	after := p.pos
	p.pos = valuePos
	v := p.valueOf(g)
	p.pos = max(p.pos, after)
	if pin := p.pins(); p.err == nil {
		g.OutputPinned(name, v, pin)
		p.built(g, start)
	}
}
