package convert

import (
	"testing"
)

// TestKindsInErrors checks that a value of another kind than the wanted tensor is named by its own kind.
func TestKindsInErrors(t *testing.T) {
	for kind, want := range map[valueKind]string{
		sequenceKind:      "want a tensor, got a sequence",
		emptyOptionalKind: "want a tensor, got an optional without a value",
		unavailableKind:   "want a tensor, got an unavailable value",
	} {
		err := func() (err error) {
			defer Recover(&err)
			new(Node).value(&Value{kind: kind})
			return nil
		}()
		if err == nil || err.Error() != want {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}
