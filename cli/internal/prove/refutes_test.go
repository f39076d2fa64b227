package prove

import (
	"bytes"
	"reflect"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/cli/internal/document"
	"github.com/graphrun/graphrun/cli/internal/exit"
	"github.com/graphrun/graphrun/internal/contiguity"
	"github.com/graphrun/graphrun/sym"
)

// TestProveRefutes holds the command to failing, with numbers, where a formula is wrong, and where an induction is.
func TestProveRefutes(t *testing.T) {
	right := contiguity.Predicates[0]
	forgot := contiguity.Predicate{Name: "forgot", Branches: right.Branches, Condition: contiguity.Predicates[1].Condition}
	stuck := right
	stuck.Steps = []contiguity.Step{{Claim: "All sizes exceed 1.", Check: func(symbol func(string) sym.Int) bool {
		return symbol("s").Gt(sym.Of(1)).Holds()
	}}}
	for want, r := range map[string]contiguity.Predicate{
		"Refuted: for shape [": forgot, "Not proved: the forms agree for this rank, but a step": stuck} {
		for _, asJSON := range []bool{false, true} {
			cmd := Command()
			var out bytes.Buffer
			cmd.SetOut(&out)
			cmd.SetContext(t.Context())
			err := prove(cmd, r, flags{rank: 2, json: asJSON})
			if e, ok := err.(*exit.Error); !ok || e.Code != exit.CodeFailed || !strings.Contains(out.String(), want) {
				t.Errorf("%v, want %q in\n%s", err, want, out.String())
			}
			if asJSON {
				assert.NoError(t, documentSchema(t).Validate(parsed(t, out.String())))
			}
		}
	}
}

// documentSchema compiles the JSON Schema of what the command prints.
func documentSchema(t *testing.T) *jsonschema.Schema {
	t.Helper()
	text, err := json.Marshal(document.Schema(reflect.TypeFor[Document](), "prove", nil))
	require.NoError(t, err)
	c := jsonschema.NewCompiler()
	require.NoError(t, c.AddResource("prove.json", parsed(t, string(text))))
	s, err := c.Compile("prove.json")
	require.NoError(t, err)
	return s
}

func parsed(t *testing.T, text string) any {
	t.Helper()
	v, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	require.NoError(t, err)
	return v
}
