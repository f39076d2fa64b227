package report

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
