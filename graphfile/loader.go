package graphfile

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/suggest"
	"github.com/graphrun/graphrun/tensor"
)

// loader reads one graph: a whole file, or a graph that is an attribute in a file. It works in four stages:
//   - readTopLevel reads the sections, in the order of the file. It completes inputs and constants. It only declares
//     nodes and outputs, because they may read values that the file declares later.
//   - checkExpressions checks sizes such as "n//2 + 1", when all symbols are known.
//   - resolve finds the values that nodes and outputs read.
//   - The draft sorts the nodes.
//
// Mistakes in the graph are recorded in errs, and the reading continues. Methods return only syntax errors. A syntax
// error ends the reading, and syntaxError replaces the later stages.
type loader struct {
	ctx        context.Context // may be nil; the callers of newLoader set ctx and openConst
	lookup     graph.Lookup
	openConst  OpenConst // opens files of constants; may be nil
	data       []byte
	baseOffset int      // offset of data in the file; all offsets are relative to the file unless stated otherwise
	depth      int      // nesting depth of the graph: 0 for the file, 1 for an attribute of the file's graph
	scan       *scanner // reads data

	draft *graph.Draft // builds graph
	graph *graph.Graph

	// Mistakes and their places in the file.
	errs   graph.Errors // mistakes for which the file is rejected, at most maxErrors
	places *places      // offsets of declarations
	source *source      // converts offsets to lines and columns

	// These fields are for ParseSome, which continues past mistakes. skipsMistakes reports whether unavailable is set.
	unavailable map[*graph.Value]bool // rejected inputs and constants; nil if the caller is not ParseSome
	skipped     graph.Errors          // mistakes of unavailable values and of outputs

	// readTopLevel reads these fields for the later stages.
	declaredSymbols map[string]bool // the keys of "symbols"
	expressions     []expression    // checked after all symbols are known
	rawNodes        []rawNode
	pending         []pendingArg // in the order of the nodes
	outputs         []rawOutput
	outputsOffset   int // offset of the key "outputs"

	texts *tensor.Texts // the strings of the file, also of graphs that are attributes

	operandBuffer []graph.Arg                // the operands of the current node
	unusedArgs    []graph.Arg                // the unused part of a block of operands: see argBlock
	attrsCache    map[attrsKey]*decodedAttrs // cache of decoded attributes
}

// rawOutput is an output as read.
type rawOutput struct {
	value  string       // the name of the value
	out    graph.Output // its Value is not set
	offset int
}

// newLoader returns a loader. It estimates the number of nodes in data, so that lists of nodes need not grow.
func newLoader(src *source, lookup graph.Lookup, data []byte) *loader {
	nodes := bytes.Count(data, []byte(`"op"`))
	places := &places{source: src, nodes: make([]int, 0, nodes), outputs: map[string]int{}}
	draft := graph.NewDraft(lookup, nodes, places)
	return &loader{draft: draft, graph: draft.Graph(), places: places, source: src, lookup: lookup, data: data,
		rawNodes: make([]rawNode, 0, nodes), attrsCache: map[attrsKey]*decodedAttrs{},
		declaredSymbols: map[string]bool{}}
}

// parse reads, resolves and sorts the graph in l.data.
func (l *loader) parse() {
	l.scan = newScanner(l.data, func(offset int, err error) { l.failAt(offset, "%w", err) })
	l.scan.base = l.baseOffset
	if err := l.readTopLevel(); err != nil {
		l.syntaxError(err)
	} else {
		l.checkExpressions()
		l.resolve()
	}
	if len(l.errs) == 0 {
		if err := l.draft.Sort(l.skipsMistakes()); err != nil {
			l.errs = asErrors(err)
		}
	}
}

// readTopLevel reads the top-level object.
func (l *loader) readTopLevel() error {
	presentKeys := map[string]bool{}
	err := l.scan.object(func(key string, offset int) error {
		presentKeys[key] = true
		switch key {
		case "version":
			version, err := l.scan.value()
			if _, isInteger := version.(int64); err == nil && !isInteger {
				l.failAt(offset, "\"version\" must be the integer 1")
			} else if err == nil && version != int64(1) {
				l.failAt(offset, "version %v is not supported: want 1", version)
			}
			return err
		case "name":
			return l.scan.stringTo(&l.graph.Name)
		case "symbols":
			return l.readSymbols()
		case "strings":
			if l.depth == 0 {
				return l.readStrings(offset)
			}
		case "inputs":
			return l.scan.array(l.readInput)
		case "constants":
			return l.scan.array(l.readConstant)
		case "nodes":
			return l.scan.array(l.readNode)
		case "outputs":
			l.outputsOffset = offset
			return l.scan.array(l.readOutput)
		}
		return l.unknownKey(key, offset, "version, name, symbols, strings, inputs, constants, nodes, outputs")
	})
	if err != nil {
		return err
	}
	l.scan.checkEnd()
	for _, key := range []string{"version", "inputs", "nodes", "outputs"} {
		// If the top-level value has no keys, only the first error is reported, such as: want an object, got a list.
		if !presentKeys[key] && (len(presentKeys) > 0 || len(l.errs) == 0) {
			l.failAt(l.baseOffset, "%q is missing", key)
		}
	}
	return nil
}

// readSymbols reads the section "symbols": the bounds and the hint of each symbol.
func (l *loader) readSymbols() error {
	return l.scan.object(func(name string, offset int) error {
		var bounds graph.Bounds
		hintOffset := -1
		err := l.scan.object(func(key string, offset int) error {
			if key == "hint" {
				hintOffset = offset
			}
			return l.readBound(&bounds, key, offset)
		})
		switch {
		case name == "":
			l.failAt(offset, "a symbol needs a name")
		case bounds.Min < 0 || bounds.Max != 0 && bounds.Max < bounds.Min: // Max 0: no maximum
			l.failAt(offset, "symbol %q: want 0 <= min <= max, got min %d and max %d", name, bounds.Min, bounds.Max)
		case err == nil && bounds.Hint != nil && bounds.Clamp(*bounds.Hint) != *bounds.Hint:
			l.failAt(hintOffset, "symbol %q: the hint is %d: want a size within min %d and max %s", name, *bounds.Hint,
				bounds.Min, maxText(bounds))
		}
		l.addSymbol(name)
		l.graph.Symbols[name], l.declaredSymbols[name] = bounds, true
		return err
	})
}

// readBound reads the value of a key of a symbol: a bound or the hint.
func (l *loader) readBound(bounds *graph.Bounds, key string, offset int) error {
	switch key {
	case "min":
		return l.scan.integerTo(&bounds.Min)
	case "max":
		return l.scan.integerTo(&bounds.Max)
	case "hint":
		firstErrIndex := len(l.errs)
		var hint int
		err := l.scan.integerTo(&hint)
		if len(l.errs) == firstErrIndex { // otherwise an error was reported: the hint is not an integer
			bounds.Hint = &hint
		}
		return err
	}
	return l.unknownKey(key, offset, "min, max, hint")
}

func maxText(b graph.Bounds) string {
	if b.Max == 0 {
		return "none"
	}
	return strconv.Itoa(b.Max)
}

// addSymbol adds a symbol without bounds, if the symbol does not exist. The file may declare the bounds later, or not
// at all.
func (l *loader) addSymbol(name string) {
	if l.graph.Symbols == nil {
		l.graph.Symbols = map[string]graph.Bounds{}
	}
	if _, ok := l.graph.Symbols[name]; !ok {
		l.graph.Symbols[name] = graph.Bounds{}
	}
}

// readOutput reads an output: a value's name, or an object.
func (l *loader) readOutput(offset int) error {
	raw := rawOutput{offset: offset}
	if l.scan.nextIsString() {
		err := l.scan.stringTo(&raw.value)
		raw.out.Name = raw.value
		l.outputs = append(l.outputs, raw)
		return err
	}
	if ok, err := l.scan.expect('{', "a value's name or an object"); !ok {
		return err
	}
	firstErrIndex := len(l.errs)
	var dtype string
	var dtypeOffset int
	err := l.scan.object(func(key string, offset int) error {
		switch key {
		case "value":
			return l.scan.stringTo(&raw.value)
		case "name":
			return l.scan.stringTo(&raw.out.Name)
		case "memory_format":
			return l.scan.formatTo(&raw.out.Pin.Format)
		case "order":
			return l.scan.orderTo(&raw.out.Pin.Order)
		case "dtype":
			dtypeOffset = l.scan.offset()
			return l.scan.stringTo(&dtype)
		}
		return l.unknownKey(key, offset, "value, name, dtype, memory_format, order")
	})
	if raw.out.Name == "" {
		raw.out.Name = raw.value
	}
	switch {
	case dtype == textType:
		l.label(raw.out.Name)
	case dtype != "" && dtype != textType:
		l.failAt(dtypeOffset, "the dtype of an output is inferred: only %q can be stated, got %q", textType, dtype)
	}
	l.checkLayout(raw.out.Pin, offset)
	if len(l.errs) == firstErrIndex {
		l.outputs = append(l.outputs, raw)
	}
	return err
}

// checkLayout rejects a memory format together with an order.
func (l *loader) checkLayout(pin graph.Pin, offset int) {
	if pin.Format != tensor.NoFormat && pin.Order != "" {
		l.failAt(offset, "\"memory_format\" and \"order\" cannot both be given")
	}
}

// unknownKey reports a key that is not in the list `want`, and skips its value.
func (l *loader) unknownKey(key string, offset int, want string) error {
	similar := suggest.Nearest(key, slices.Values(strings.Split(want, ", ")))
	l.failAt(offset, "unknown key %q: want one of %s%s", key, want, suggest.DidYouMean(similar))
	return l.scan.skip()
}

// failAt records a mistake at an offset of the file. It is not inlined, to save compile time: it has many callers, none
// of them hot.
//
//go:noinline
func (l *loader) failAt(offset int, format string, args ...any) {
	l.addError(l.source.errorAt(offset, format, args...))
}

func (l *loader) addError(e *graph.Error) {
	if len(l.errs) < maxErrors {
		l.errs = append(l.errs, e)
	}
}

// syntaxError adds the error that ended the reading. The message is from diagnose (syntax.go) or, if diagnose finds no
// mistake, from the JSON library.
func (l *loader) syntaxError(err error) {
	offset, msg := l.scan.offset(), err.Error()
	var syntactic *jsontext.SyntacticError
	if errors.As(err, &syntactic) {
		offset, msg = l.baseOffset+int(syntactic.ByteOffset), "invalid JSON: "+syntactic.Err.Error()
	}
	positionText := func(dataOffset int) string {
		position := l.source.position(l.baseOffset + dataOffset)
		return fmt.Sprintf("line %d, column %d", position.Line, position.Col)
	}
	if mistake := diagnose(l.data, positionText); mistake != nil {
		offset, msg = l.baseOffset+mistake.offset, mistake.text
	}
	if len(l.errs) == maxErrors {
		l.errs = l.errs[:maxErrors-1] // failAt would drop the error if the list were full
	}
	l.failAt(min(offset, l.baseOffset+len(l.data)), "%s", msg)
}
