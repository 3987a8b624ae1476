"""The catalogue: which events there are, what they look like, who owns them, and who writes and reads them.

model      the catalogue as values
fields     the fields of a schema
subjects   which subjects of the registry belong to which topic, and what a schema says about its events
jobs       what jobs report about themselves
users      who writes and reads each topic
build      all of this together
source     what the cluster and the registry know
page       the catalogue as HTML
routes     over HTTP
"""
