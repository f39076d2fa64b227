// Package report has the documents that describe programs. [Plan] is the main document: the result of graphrun's
// Program.Report and the output of graphrun plan --json. Its parts are steps ([Step]), copies ([Copy]), the effects of
// passes ([Pass], [Elision], [Folding], [Decomposition], [Packing], [Placed], [Unfused]), costs and memory ([Costs],
// [Memory], [Profile]), and segments of graphs with data-dependent shapes ([Segment]).
//
// The json tag of a field is its key in the document. The doc tag is the description that graphrun schema prints. The
// types have no behavior. Packages inspect and experiment define further documents: inspect about one program,
// experiment about several programs.
package report

import (
	"fmt"
	"strconv"
	"strings"
)

// Plan describes a program: its steps, its costs, and the effects of the passes, with reasons. A slice is nil only if
// its key is optional.
type Plan struct {
	Strategy     string          `json:"strategy" doc:"The strategy that was applied."`
	Exact        bool            `json:"exact,omitempty" doc:"Whether implementations that compute by another formula than the op's definition were excluded; left out if false."`
	Device       string          `json:"device,omitzero" doc:"The device that may compute steps; left out for the host alone."`
	Optimal      bool            `json:"optimal" doc:"Whether it is proved that the cost is the least among the forms considered, at the stated prices."`
	CostNS       float64         `json:"cost_ns" doc:"The estimated cost of the plan, in nanoseconds."`
	SavedNS      float64         `json:"saved_ns,omitzero" doc:"The estimated saving of writing values in place, in nanoseconds, if the strategy did not include this saving: bounds and certificates do not include it."`
	LowerBoundNS *float64        `json:"lower_bound_ns" doc:"A lower bound on the cost of any plan, without the saving of values that are written in place; null if unknown."`
	FewestCopies *FewestCopies   `json:"fewest_copies,omitzero" doc:"The choice among plans of nearly equal cost; left out for strategies other than optimal."`
	Profile      Profile         `json:"profile" doc:"The profile of the machine that costs are estimated for."`
	Constants    float64         `json:"constants_bytes,omitzero" doc:"The bytes of the constants that all steps read."`
	Passes       []Pass          `json:"passes" doc:"The passes in their order, with the effect of each."`
	Copies       []Copy          `json:"copies" doc:"The copies that were inserted."`
	Elided       []Elision       `json:"elided" doc:"The nodes that were removed as redundant."`
	Folded       []Folding       `json:"folded" doc:"The nodes that were computed at compile time, because they depend on constants alone."`
	Placed       []Placed        `json:"placed,omitzero" doc:"The values that are written directly into other values, without a copy."`
	Decomposed   []Decomposition `json:"decomposed" doc:"The nodes of composite ops that other nodes replace."`
	Packed       []Packing       `json:"packed" doc:"The constants that were packed for an implementation."`
	PackedInRuns []RunPacking    `json:"packed_in_runs,omitzero" doc:"The operands that are packed in every run."`
	Unchecked    []Unchecked     `json:"unchecked,omitzero" doc:"Comparisons that --check could not make."`
	Unfused      []Unfused       `json:"unfused" doc:"Pairs of nodes in different steps whose ops could be fused."`
	Steps        []Step          `json:"steps" doc:"The steps, in a valid order."`
	MovedBytes   int             `json:"moved_bytes" doc:"The bytes that steps read and write, each operand once."`
	PeakBytes    int             `json:"peak_bytes" doc:"The memory of a run beside inputs and constants: the arena, the outputs and the scratch of all workers."`
	Memory       Memory          `json:"memory" doc:"The memory of a run."`
	PlanMS       float64         `json:"plan_ms" doc:"The time of planning and compilation, in milliseconds."`
	Segments     []Segment       `json:"segments,omitzero" doc:"The segments of a graph whose shapes depend on data."`
	RefusedHints []RefusedHint   `json:"refused_hints,omitzero" doc:"Sizes of --dim, after the first, for which there is no plan."`
	NoCode       string          `json:"no_machine_code,omitzero" doc:"Why all loops run in Go, without machine code; left out if there is machine code."`
	Notes
}

// FewestCopies describes a plan with few copies among plans of nearly equal cost. Only inserted copies count. A copy by
// a node of the graph, such as a reshape that cannot be a view, does not count.
type FewestCopies struct {
	Slack   float64 `json:"slack" doc:"The share of the least cost by which a plan may cost more to have fewer copies; 0: only plans of least cost are considered."`
	Copies  int     `json:"copies" doc:"The number of copies that the plan inserts."`
	AtLeast int     `json:"at_least" doc:"A proved lower bound on the number of copies of the plans within the slack."`
	Proved  bool    `json:"proved" doc:"Whether it is proved that no plan within the slack has fewer copies."`
	ExtraNS float64 `json:"extra_ns" doc:"The cost of the plan beyond the lower bound on the cost of any plan, in nanoseconds."`
}

// Profile identifies the machine profile that prices work.
type Profile struct {
	Digest       string `json:"digest" doc:"The sha256 of the profile's canonical JSON, in hexadecimal digits."`
	CPU          string `json:"cpu" doc:"The processor that was measured."`
	Instructions string `json:"instructions" doc:"The instruction set that was measured."`
	Measured     string `json:"measured,omitzero" doc:"The time of the measurement (RFC 3339); left out for a default."`
	Estimated    bool   `json:"estimated,omitzero" doc:"Whether the prices are estimates, not measurements."`
	Default      bool   `json:"default" doc:"Whether it is a default profile, not a measurement of this machine."`
	Prices       int    `json:"prices,omitzero" doc:"The number of measured prices of single nodes."`
}

// Pass is a pass that was applied: see Options.Passes of the root package.
type Pass struct {
	Pass  string  `json:"pass" doc:"The name of the pass."`
	Doc   string  `json:"doc" doc:"The purpose of the pass."`
	Did   string  `json:"did" doc:"Its effect on this graph, in a few words; empty for none."`
	Nodes int     `json:"nodes" doc:"The number of nodes after the pass."`
	MS    float64 `json:"ms" doc:"Its duration, in milliseconds."`
}

// Copy is an inserted copy of a value in another layout.
type Copy struct {
	Value string `json:"value" doc:"The value that is copied."`
	From  []int  `json:"from" doc:"Its strides, in elements."`
	To    []int  `json:"to" doc:"The strides of the copy, in elements."`
	// Transfer is empty for a copy within the memory of the host or of one device.
	Transfer string  `json:"transfer,omitzero" doc:"The direction of a transfer: upload (to the device) or download (to the host); left out for other copies."`
	Bytes    int     `json:"bytes" doc:"The size of the copy."`
	CostNS   float64 `json:"cost_ns" doc:"The estimated cost of the copy, in nanoseconds."`
	Share    float64 `json:"share,omitzero" doc:"Its cost as a share of the cost of the plan, from 0 to 1."`
	// Why states Producer, Reader, CostNS, Share, Advice and Strategy in sentences.
	Why      string   `json:"why" doc:"The reason for the copy, in sentences."`
	Producer Producer `json:"producer,omitzero" doc:"The origin of the value and its layout."`
	Reader   Reader   `json:"reader,omitzero" doc:"The reader of the copy and the layout that it needs."`
	Advice   string   `json:"advice,omitzero" doc:"A change by the caller that avoids the copy; empty if none is known."`
	Strategy string   `json:"strategy,omitzero" doc:"The reason of the strategy, if the sides do not state it; else empty."`
}

// Producer describes the origin of a copied value and of its layout.
type Producer struct {
	Kind         string `json:"kind" doc:"One of input, constant, pin, viewed (a view) and node."`
	Name         string `json:"name" doc:"The value that is copied."`
	Impl         string `json:"impl" doc:"The implementation of a node that chooses its layout; else empty."`
	LayoutSource string `json:"from" doc:"The value that it views, or whose layout it follows; else empty."`
	Layout       string `json:"layout" doc:"Its dimensions from the slowest to the fastest, and those strides that differ from the strides of a dense value."`
	Padded       bool   `json:"padded" doc:"Whether its elements do not fill a block of memory."`
	Pinned       string `json:"pinned" doc:"The pinned value that is a copy of it, if it is the result of a pinned node before the copy to the pinned layout; else empty."`
}

// Reader describes the reader of a copy and the layout that it needs.
type Reader struct {
	Kind         string `json:"kind" doc:"One of output, pin, viewed (a view) and node; empty if nothing reads the copy."`
	Name         string `json:"name" doc:"The output, the pinned value, or the node."`
	Impl         string `json:"impl" doc:"The implementation of a node that chooses its layouts; else empty."`
	DecidedBy    string `json:"for" doc:"The later node, output or pin that determines the layout, if the reader does not; else empty."`
	Pin          string `json:"pin" doc:"The pin of the node, if it has one; else empty."`
	OtherReaders int    `json:"more" doc:"The number of other readers."`
	Layout       string `json:"layout" doc:"The layout of the copy, as in producer."`
	Dense        bool   `json:"dense" doc:"Whether the reader needs the order of the source without its padding."`
}

// Placed is a value that is written directly into the result of a node that joins it with other values, such as a
// concatenation.
type Placed struct {
	Value   string  `json:"value" doc:"The value."`
	Within  string  `json:"within" doc:"The value that owns the memory."`
	Bytes   int     `json:"bytes" doc:"The bytes that are not copied."`
	SavedNS float64 `json:"saved_ns" doc:"The estimated saving, in nanoseconds, less the additional cost of other readers."`
}

// Elision is a node that was removed.
type Elision struct {
	Node string `json:"node" doc:"The removed node."`
	Why  string `json:"why" doc:"Why it is redundant."`
}

// Folding is a node that was computed at compile time.
type Folding struct {
	Node  string `json:"node" doc:"The node."`
	Op    string `json:"op" doc:"The op of the node."`
	Bytes int    `json:"bytes" doc:"The size of its results; 0 for a view."`
	Why   string `json:"why,omitzero" doc:"The reason for a node that a pass inserted."`
}

// Decomposition is a node that other nodes replace.
type Decomposition struct {
	Node string   `json:"node" doc:"The node of a composite op."`
	Op   string   `json:"op" doc:"The op of the node."`
	Into []string `json:"into" doc:"The nodes that replace it."`
	Why  string   `json:"why,omitempty" doc:"Why the node was rewritten together with earlier nodes; left out if it was rewritten alone."`
}

// Unfused is a pair of nodes in different steps whose ops could be fused.
type Unfused struct {
	Node   string `json:"node" doc:"A node."`
	Reader string `json:"reader" doc:"A node of another step that reads its result."`
	Why    string `json:"why" doc:"Why they are not one step."`
}

// Packing is a constant in the form that an implementation reads.
type Packing struct {
	Value    string   `json:"value" doc:"The packed constant."`
	Original string   `json:"of" doc:"The original constant."`
	Form     string   `json:"form" doc:"The form, in words."`
	Bytes    int      `json:"bytes" doc:"The size of the packed constant."`
	Readers  []string `json:"readers" doc:"The nodes that read it."`
}

// RunPacking is an operand that is packed in every run, because it is not a constant or memory is short.
type RunPacking struct {
	Value string `json:"value" doc:"The operand."`
	Form  string `json:"form" doc:"The form that its reader needs, in words."`
	Node  string `json:"node" doc:"The node that reads it."`
}

// Unchecked is a comparison that Options.Check of the root package could not make.
type Unchecked struct {
	Node    string   `json:"node,omitzero" doc:"The node that prevents the comparison; left out if none in particular does."`
	Op      string   `json:"op,omitzero" doc:"The op of the node."`
	Why     string   `json:"why" doc:"Why nothing could be compared."`
	Outputs []string `json:"outputs" doc:"The outputs that were not checked."`
}

// String returns the outputs and the reason in words.
func (u Unchecked) String() string {
	switch {
	case len(u.Outputs) == 0:
		return "no values were checked: " + u.Why
	case u.Node == "":
		return fmt.Sprintf("the values of %s were not checked: %s", quotedList(u.Outputs), u.Why)
	}
	return fmt.Sprintf("the values of %s were not checked: node %q (%s): %s", quotedList(u.Outputs), u.Node, u.Op, u.Why)
}

// quotedList returns "output" or "outputs" with the quoted names, at most maxListed of them.
func quotedList(names []string) string {
	const maxListed = 8
	quoted := make([]string, min(len(names), maxListed))
	for i := range quoted {
		quoted[i] = fmt.Sprintf("%q", names[i])
	}
	if omittedCount := len(names) - maxListed; omittedCount > 0 {
		return fmt.Sprintf("%s and %d more outputs", strings.Join(quoted, ", "), omittedCount)
	}
	if len(names) == 1 {
		return "output " + quoted[0]
	}
	return "outputs " + strings.Join(quoted, ", ")
}

// RefusedHint is a hint for which the graph cannot be planned.
type RefusedHint struct {
	Sizes map[string]int `json:"sizes" doc:"The sizes of the hint, by symbol."`
	Why   string         `json:"why" doc:"Why the graph cannot be planned for them."`
}

// Notes are remarks on a graph. Documents contain them in addition to results.
type Notes struct {
	Assumed  map[string]int `json:"assumed,omitzero" doc:"The assumed sizes of symbols that were not given, by symbol."`
	Warnings []Mistake      `json:"warnings,omitzero" doc:"Possible mistakes in the file."`
}

// Mistake is an error of a graph in a document.
type Mistake struct {
	Node    string `json:"node" doc:"The node that has the mistake; empty for none."`
	Op      string `json:"op,omitzero" doc:"The op of the node."`
	Message string `json:"message" doc:"The message, in PyTorch's words if PyTorch has one."`
	File    string `json:"file,omitzero" doc:"The file that has the mistake."`
	Line    int    `json:"line,omitzero" doc:"The line in the file, from 1."`
	Col     int    `json:"col,omitzero" doc:"The column in the line, from 1."`
}

// Segment is a part of a graph whose nodes are planned together. A graph has several segments if shapes depend on data.
// A run plans a segment when its operands are known. There is one plan for each combination of their layouts and sizes.
type Segment struct {
	Segment       int            `json:"segment" doc:"Its index in the order of execution."`
	Nodes         []string       `json:"nodes" doc:"Its nodes."`
	Planned       bool           `json:"planned" doc:"Whether this document has the plan of the segment: otherwise each run plans the segment."`
	DecidesShapes bool           `json:"decides_shapes" doc:"Whether it is a single node whose results determine shapes."`
	After         []int          `json:"after" doc:"The segments that produce its operands."`
	Inputs        []SegmentValue `json:"inputs" doc:"The operands that it waits for."`
	Awaits        []string       `json:"awaits" doc:"The values of other segments that its attributes are read from."`
	Outputs       []SegmentValue `json:"outputs" doc:"Its results that other segments or outputs use."`
}

// SegmentValue describes a value by its properties that are known before the graph runs.
type SegmentValue struct {
	Name  string  `json:"name" doc:"The name of the value."`
	DType *string `json:"dtype" of:"dtype" doc:"The type of its elements; null if unknown."`
	Shape Sizes   `json:"shape" doc:"Its sizes; null if unknown."`
}

// Step is one kernel call. The tag `of` names the set of a field's values for JSON Schemas.
type Step struct {
	Name      string   `json:"name" doc:"The name of the step."`
	Ops       []string `json:"ops" doc:"The nodes that it computes."`
	Op        string   `json:"op,omitzero" doc:"The op of its node; left out for several nodes."`
	Impl      string   `json:"impl,omitzero" doc:"The implementation of the op."`
	Device    string   `json:"device,omitzero" doc:"The device that computes it or that a transfer reads or writes; left out for the host."`
	Loop      *Loop    `json:"loop,omitzero" doc:"The loop over elements; left out for other kernels."`
	FastSetup string   `json:"fast_setup" of:"fast_setup" doc:"The fast path of TensorIterator that set up the loop."`
	CostNS    float64  `json:"cost_ns" doc:"The estimated cost of the step, in nanoseconds."`
	Bytes     int      `json:"bytes,omitzero" doc:"The bytes that it reads and writes, each operand once."`
	// MeasuredNS is nil in reports; a caller that measures steps may set it, as plan --measure does.
	MeasuredNS *float64 `json:"measured_ns,omitzero" doc:"The median of the measured times, in nanoseconds."`
	Work       []Work   `json:"work,omitzero" doc:"The work that is priced: first the work of the implementation, then the additional work for each operand."`
	Strides    []int    `json:"strides" doc:"The strides of its first output, in elements."`
	Buffer     int      `json:"buffer" doc:"The number of the buffer of its first output."`
}

// Loop is the iteration of a pointwise step.
type Loop struct {
	Shape   []int   `json:"shape" doc:"The coalesced shape, the fastest dimension first."`
	Strides [][]int `json:"strides" doc:"The byte strides of each operand, outputs first, in the same order of dimensions."`
}

// Work is an amount of work, in the units of a machine profile (`graphrun calibrate`). A profile has a price for
// each kind of memory access, for each inner kernel, and for starting a step. The price of an inner kernel is for one
// unit of its work, such as a multiply-add.
type Work struct {
	Footprint float64 `json:"footprint" doc:"The bytes of all memory that the step touches."`
	Steps     float64 `json:"steps" doc:"The number of steps that are started, each at a fixed price."`
	// For an operand, all fields are differences from the work for a dense operand. Bytes may then be negative.
	Bytes   map[string]float64 `json:"bytes" doc:"Bytes by the kind of access."`
	Kernels map[string]float64 `json:"kernels" doc:"Units of inner kernels that overlap with memory accesses."`
	Waits   map[string]float64 `json:"waits" doc:"Units of inner kernels that do not overlap with memory accesses."`
}

// Memory is the memory of a run in bytes, by purpose.
type Memory struct {
	Inputs          int       `json:"inputs" doc:"For the inputs."`
	Constants       int       `json:"constants" doc:"For the constants."`
	Originals       int       `json:"originals" doc:"The part of constants that no run reads: original weights that cannot be restored from their packed form."`
	Packed          int       `json:"packed" doc:"For packed constants."`
	Arena           int       `json:"arena" doc:"For the arena, which intermediate values share."`
	Outputs         int       `json:"outputs" doc:"For the outputs."`
	Scratch         int       `json:"scratch" doc:"For the scratch memory of all workers."`
	DeviceConstants int       `json:"device_constants,omitempty" doc:"Memory of the device for constants; not part of total."`
	DeviceArena     int       `json:"device_arena,omitempty" doc:"Memory of the device for the arena; not part of total."`
	Total           int       `json:"total" doc:"The sum."`
	Largest         []Holding `json:"largest" doc:"The largest values."`
}

// Holding is the memory of one value.
type Holding struct {
	Kind  string `json:"kind" doc:"Its purpose."`
	Name  string `json:"name" doc:"The value."`
	Bytes int    `json:"bytes" doc:"Its size."`
}

// Costs summarizes the cost, the memory and the copies of a plan.
type Costs struct {
	Copies      int `json:"copies" doc:"The number of inserted copies."`
	CopiedBytes int `json:"copied_bytes" doc:"The bytes of the inserted copies."`
	MovedBytes  int `json:"moved_bytes" doc:"The bytes that steps read and write, each operand once."`
	Elided      int `json:"elided" doc:"The number of nodes that were removed as redundant."`
	Steps       int `json:"steps" doc:"The number of steps."`
	PeakBytes   int `json:"peak_bytes" doc:"The memory of a run beside inputs and constants: the arena, the outputs and the scratch of all workers."`
	// PeakWithWeights excludes the inputs, whose memory belongs to the caller.
	PeakWithWeights int     `json:"peak_with_weights_bytes" doc:"The sum of peak_bytes and the memory of constants and packed constants."`
	Memory          Memory  `json:"memory" doc:"The memory of a run."`
	CostNS          float64 `json:"cost_ns" doc:"The estimated cost of the plan, in nanoseconds."`
	PlanMS          float64 `json:"plan_ms" doc:"The time of planning and compilation, in milliseconds."`
	// Places is nil if the program has no device.
	Places *Places `json:"places,omitzero" doc:"The work of a device and the transfers; left out without a device."`
}

// Places divides the steps of a plan between the host and a device.
type Places struct {
	Device           string `json:"device" doc:"The device."`
	Steps            int    `json:"steps" doc:"The number of steps that the device computes, without transfers."`
	Uploads          int    `json:"uploads" doc:"The number of copies to the device in each run."`
	Downloads        int    `json:"downloads" doc:"The number of copies to the host in each run."`
	TransferredBytes int    `json:"transferred_bytes" doc:"The bytes of uploads and downloads."`
}

// Costs returns the summary of a plan; zero for nil.
func (p *Plan) Costs() Costs {
	if p == nil {
		return Costs{}
	}
	c := Costs{Copies: len(p.Copies), MovedBytes: p.MovedBytes, Elided: len(p.Elided), Steps: len(p.Steps),
		PeakBytes: p.PeakBytes, PeakWithWeights: p.PeakBytes + p.Memory.Constants + p.Memory.Packed, Memory: p.Memory,
		CostNS: p.CostNS, PlanMS: p.PlanMS, Places: p.places()}
	for _, copied := range p.Copies {
		c.CopiedBytes += copied.Bytes
	}
	return c
}

// places counts the steps and transfers of a device; nil without a device.
func (p *Plan) places() *Places {
	if p.Device == "" {
		return nil
	}
	places := &Places{Device: p.Device}
	for _, step := range p.Steps {
		if step.Device != "" {
			places.Steps++
		}
	}
	for _, copied := range p.Copies {
		switch copied.Transfer {
		case "":
			continue
		case "upload":
			places.Uploads++
		default:
			places.Downloads++
		}
		places.Steps-- // a transfer is a step, too
		places.TransferredBytes += copied.Bytes
	}
	return places
}

// Size is a size, a stride or an offset: a number, or an expression over symbols. The symbols u0, u1 ... are sizes that
// depend on data.
type Size struct {
	N    int    // the number, if Name is empty
	Name string // the expression; different expressions may have equal values
}

// String returns the number or the expression.
func (s Size) String() string {
	if s.Name != "" {
		return s.Name
	}
	return strconv.Itoa(s.N)
}

// MarshalJSON returns the number, or the expression as a string.
func (s Size) MarshalJSON() ([]byte, error) { return s.append(nil), nil }

// append appends the JSON of the size to b.
func (s Size) append(b []byte) []byte {
	if s.Name != "" {
		return strconv.AppendQuote(b, s.Name)
	}
	return strconv.AppendInt(b, int64(s.N), 10)
}

// Sizes are a shape or strides; nil, in JSON null, if the rank is unknown.
type Sizes []Size

// SizesOf returns known sizes as numbers, and unknown sizes as expressions. The result is not nil. The elements are of
// type sym.Int.
func SizesOf[S interface {
	Known() (int, bool)
	String() string
}](list []S) Sizes {
	sizes := make(Sizes, len(list))
	for i, s := range list {
		n, known := s.Known()
		sizes[i].N = n
		if !known {
			sizes[i].Name = s.String()
		}
	}
	return sizes
}

// String prints the list as one word: "[2,N]", or "?" for nil.
func (s Sizes) String() string {
	if s == nil {
		return "?"
	}
	words := make([]string, len(s))
	for i, n := range s {
		words[i] = n.String()
	}
	return "[" + strings.Join(words, ",") + "]"
}

// MarshalJSON returns the list, or null.
func (s Sizes) MarshalJSON() ([]byte, error) {
	if s == nil {
		return []byte("null"), nil
	}
	text := []byte{'['}
	for i, n := range s {
		if i > 0 {
			text = append(text, ", "...)
		}
		text = n.append(text)
	}
	return append(text, ']'), nil
}

// JSONSchema is the JSON Schema of a size.
func (Size) JSONSchema() map[string]any {
	return map[string]any{"anyOf": []any{map[string]any{"type": "integer"}, map[string]any{"type": "string",
		"description": "An expression over symbols. u0, u1 ... are sizes that depend on data; different ones may be equal."}}}
}

// JSONSchema is the JSON Schema of the list.
func (Sizes) JSONSchema() map[string]any {
	items := Size{}.JSONSchema()
	return map[string]any{"anyOf": []any{map[string]any{"type": "array", "items": items}, map[string]any{"type": "null"}}}
}

// Usage tells how the runs of a program got their plans.
type Usage struct {
	Plans   int          // how often the graph or a part of it was planned; sizes that share a plan add nothing
	Classes []ClassUsage // the classes of sizes that runs have met, in the order of their plans
}

// ClassUsage describes a set of sizes that share a plan. A run with new sizes of the class evaluates the plan at these
// sizes.
type ClassUsage struct {
	Anchor   map[string]int // the sizes for which the plan was made, by symbol
	Guards   []string       // the conditions that all sizes of the class satisfy
	Bindings int            // number of sets of sizes for which the plan was evaluated
}
