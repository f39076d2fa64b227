package apifuzz

// vouched are the functions that take what nobody can check, addresses above all: the caller
// vouches for it, as their documentation says. Their own tests call them.
var vouched = map[string]string{
	"(interp.Runner).Run":          "addresses of operands",
	"(iter.Iterator).ForEach":      "addresses of operands",
	"(iter.Iterator).ForRange":     "addresses of operands",
	"(iter.Iterator).Parallel":     "addresses of operands",
	"(iter.Prepared).All":          "addresses of operands",
	"(iter.Prepared).Chunk":        "addresses of operands",
	"(iter.Prepared).Parallel":     "addresses of operands",
	"(iter.Prepared).Range":        "addresses of operands",
	"(rule.Kernel).WithBlock":      "a function over addresses",
	"(iter.Iterator).Reduce":       "addresses of operands",
	"(iter.Reducer).Run":           "addresses of operands",
	"(axes.Loader).Load":           "addresses of blocks",
	"(axes.Loader).Run":            "addresses of blocks",
	"(axes.Walker).Next":           "a walk over axes that the caller makes",
	"(axes.Walker).Seek":           "a walk over axes that the caller makes",
	"(tensor.Scalar).Store":        "an address",
	"(graph.Mem).Within":           "an offset within scratch memory",
	"(graph.Pointwise).Compile":    "a call of the op, with the operands that graph has checked",
	"(graph.ScoreRows).Do":         "the memory of a kernel, and scores in it",
	"(graph.Tail).Do":              "a rectangle of the head's result, whose addresses were entered",
	"(graph.Tail).Enter":           "the memory of the head's kernel",
	"(graph.Rows).Compile":         "a call of the op, with the operands that graph has checked",
	"(graph.Pointwise).Expression": "a call of the op, with the operands that graph has checked",
	"(graph.Pointwise).Rule":       "a call of the op, with the operands that graph has checked",
	"(graph.Pointwise).Infer":      "a call of the op, with the operands that graph has checked",
}
