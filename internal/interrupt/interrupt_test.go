package interrupt

import (
	"context"
	"errors"
	"testing"
)

func TestCheck(t *testing.T) {
	why := errors.New("enough")
	ctx, cancel := context.WithCancelCause(context.Background())
	work := func(ctx context.Context) (err error) {
		defer Catch(&err)
		Check(ctx)
		return nil
	}
	if err := errors.Join(work(ctx), work(nil)); err != nil {
		t.Fatal(err)
	}
	cancel(why)
	if err := work(ctx); err != why {
		t.Fatalf("got %v, want the cause", err)
	}
}

func TestCatchLetsOthersPass(t *testing.T) {
	defer func() {
		if x := recover(); x != "other" {
			t.Fatalf("recovered %v", x)
		}
	}()
	func() (err error) {
		defer Catch(&err)
		panic("other")
	}()
}
