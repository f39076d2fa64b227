package convert

import (
	"errors"

	"github.com/graphrun/graphrun/internal/suggest"
)

// Operator identifies an operator. The default domain is "".
type Operator struct{ Domain, Name string }

// String returns domain and name.
func (o Operator) String() string {
	if o.Domain == "" {
		return o.Name
	}
	return o.Domain + "." + o.Name
}

// Table has the converters of the operators.
type Table struct {
	Converters map[Operator]Converter
	Custom     map[Operator]bool // operators whose converters take precedence over functions of the model
	// Strings has the operators that accept strings, by [Operator.String]. In the graph, strings are int64 codes. The
	// value is true if all int64 results are codes of strings. It is false if the converter itself marks these results.
	Strings map[string]bool
	// Instead tells what to do in place of an operator that will not be supported, by [Operator.String].
	Instead map[string]string
	Domains []string // the domains that suggestions come from, in the order of preference
}

// ErrNoConverter is wrapped by the error of a node whose operator has no converter.
var ErrNoConverter = errors.New("the operator is not supported")

// Nearest suggests an operator with a converter in place of `missing`, which has none. It returns "" if no operator is
// similar. An operator with the same name in another domain is preferred to an operator with a similar name in the same
// domain.
func (t *Table) Nearest(missing Operator) string {
	for _, domain := range t.Domains {
		if other := (Operator{domain, missing.Name}); domain != missing.Domain && t.Converters[other] != nil {
			return other.String()
		}
	}
	// The result does not depend on the order of the names.
	return suggest.Nearest(missing.Name, func(yield func(string) bool) {
		for other := range t.Converters {
			if other.Domain == missing.Domain && !yield(other.Name) {
				return
			}
		}
	})
}

// Control has the converters of operators on sequences, of optionals and of control flow, by operator name. These
// operators belong to the default domain. Package operators has the other converters of this domain and adds these.
var Control = map[string]Converter{
	"SequenceConstruct": sequenceConstruct, "SequenceEmpty": sequenceEmpty, "SequenceAt": sequenceAt,
	"SequenceInsert": sequenceInsert, "SequenceErase": sequenceErase, "SequenceLength": sequenceLength,
	"SplitToSequence": splitToSequence, "ConcatFromSequence": concatFromSequence, "SequenceMap": sequenceMap,
	"Optional": optionalOp, "OptionalHasElement": optionalHasElement, "OptionalGetElement": optionalGetElement,
	"If": ifOp, "Loop": loopOp, "Scan": scanOp,
}
