// What kafkajs' client of schema registries does, as lines of JSON; its argument is the address of a registry.
import registries from '@kafkajs/confluent-schema-registry'

const { SchemaRegistry, SchemaType, COMPATIBILITY } = registries
const registry = new SchemaRegistry({ host: process.argv[2] })
const emit = (name, value) => console.log(JSON.stringify({ name, value }))

const avro = {
  type: 'record',
  name: 'Order',
  namespace: 'shop',
  fields: [{ name: 'id', type: 'int' }],
}
const order = await registry.register(avro, { subject: 'js-orders-value', compatibility: COMPATIBILITY.FULL })
const data = await registry.encode(order.id, { id: 7 })
emit('avro', [order.id, [...data], await registry.decode(data)])
emit('latest', await registry.getLatestSchemaId('js-orders-value'))
emit('by schema', await registry.getRegistryIdBySchema('js-orders-value', avro))

const json = { type: SchemaType.JSON, schema: '{"type": "object", "properties": {"id": {"type": "integer"}}}' }
const person = await registry.register(json, { subject: 'js-people-value' })
emit('json', await registry.decode(await registry.encode(person.id, { id: 8 })))

const money = { type: SchemaType.PROTOBUF, schema: 'syntax = "proto3"; package shop; message Money { int32 cents = 1; }' }
await registry.register(money, { subject: 'money' })
const priced = {
  type: SchemaType.PROTOBUF,
  schema: 'syntax = "proto3"; package shop; import "money.proto"; message Priced { int32 id = 1; Money price = 2; }',
  references: [{ name: 'money.proto', subject: 'money', version: 1 }],
}
const price = await registry.register(priced, { subject: 'js-prices-value' })
emit('protobuf', await registry.decode(await registry.encode(price.id, { id: 9, price: { cents: 250 } })))

try {
  const changed = { ...avro, fields: [{ name: 'id', type: 'string' }] }
  await registry.register(changed, { subject: 'js-orders-value', compatibility: COMPATIBILITY.FULL })
  emit('incompatible', null)
} catch (error) {
  emit('incompatible', error.status)
}
