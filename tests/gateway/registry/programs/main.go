// What franz-go's client of schema registries does, as lines of JSON; its argument is the address of a registry.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/twmb/franz-go/pkg/sr"
)

const order = `{"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}`
const orderWithNote = `{"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}, {"name": "note", "type": "string", "default": ""}]}`
const orderWithPrice = `{"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}, {"name": "price", "type": "double"}]}`
const cart = `{"type": "record", "name": "Cart", "fields": [{"name": "orders", "type": {"type": "array", "items": "Order"}}]}`

func must[T any](value T, err error) T {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	return value
}

func emit(name string, value any) {
	fmt.Println(string(must(json.Marshal(map[string]any{"name": name, "value": value}))))
}

func codeOf(err error) int {
	var failed *sr.ResponseError
	if errors.As(err, &failed) {
		return failed.ErrorCode
	}
	return 0
}

func main() {
	ctx := context.Background()
	client := must(sr.NewClient(sr.URLs(os.Args[1])))

	types := []string{}
	for _, each := range must(client.SupportedTypes(ctx)) {
		types = append(types, each.String())
	}
	emit("types", types)

	first := must(client.CreateSchema(ctx, "go/orders-value", sr.Schema{Schema: order}))
	emit("created", []any{first.Subject, first.Version, first.ID})
	check := must(client.CheckCompatibility(ctx, "go/orders-value", -1, sr.Schema{Schema: orderWithPrice}))
	emit("compatible", check.Is)
	_, err := client.CreateSchema(ctx, "go/orders-value", sr.Schema{Schema: orderWithPrice})
	emit("incompatible", codeOf(err))
	second := must(client.CreateSchema(ctx, "go/orders-value", sr.Schema{Schema: orderWithNote}))
	emit("second", []int{second.Version, second.ID})
	emit("versions", must(client.SubjectVersions(ctx, "go/orders-value")))
	emit("found", must(client.LookupSchema(ctx, "go/orders-value", sr.Schema{Schema: order})).Version)

	reference := sr.SchemaReference{Name: "Order", Subject: "go/orders-value", Version: 2}
	used := must(client.CreateSchema(ctx, "go/carts-value", sr.Schema{Schema: cart, References: []sr.SchemaReference{reference}}))
	emit("references", must(client.SchemaByID(ctx, used.ID)).References)
	referrers := []string{}
	for _, each := range must(client.SchemaReferences(ctx, "go/orders-value", 2)) {
		referrers = append(referrers, each.Subject)
	}
	emit("referrers", referrers)

	set := client.SetCompatibility(ctx, sr.SetCompatibility{Level: sr.CompatFullTransitive}, "go/orders-value")
	must(0, set[0].Err)
	got := client.Compatibility(ctx, "go/orders-value")
	emit("level", must(got[0].Level, got[0].Err).String())
	reset := client.ResetCompatibility(ctx, "go/orders-value")
	emit("reset", must(reset[0].Level, reset[0].Err).String())

	serde := sr.NewSerde()
	serde.Register(first.ID, map[string]any{}, sr.EncodeFn(json.Marshal), sr.DecodeFn(json.Unmarshal))
	id, rest := 0, []byte{}
	id, rest, err = serde.DecodeID(must(serde.Encode(map[string]any{"id": 7})))
	must(0, err)
	emit("serde", []any{id, string(rest)})

	emit("deleted", must(client.DeleteSubject(ctx, "go/carts-value", sr.SoftDelete)))
	emit("deleted for good", must(client.DeleteSubject(ctx, "go/carts-value", sr.HardDelete)))
	_, err = client.SchemaByVersion(ctx, "go/carts-value", -1)
	emit("missing", codeOf(err))
	emit("subjects", must(client.Subjects(ctx)))
}
