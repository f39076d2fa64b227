package report

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
